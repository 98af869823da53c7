import { expect, test } from "vitest";

import { NO_CAP } from "../../testing/makers";
import { capOf, fieldsOf, mistakeIn, whomWords } from "./caps";

test("a cap is the same after it was shown and read again", () => {
  for (const cap of [
    NO_CAP,
    { ...NO_CAP, user: "ada", gpus: 4, time_s: 5400 },
    { ...NO_CAP, role: "manager" as const, gpu_hours_month: 1000.5, job_gpus: 8, jobs: 0 },
  ]) {
    expect(capOf(fieldsOf(cap))).toEqual(cap);
  }
  expect(fieldsOf({ ...NO_CAP, user: "ada", time_s: 5400 })).toMatchObject({
    whom: "user:ada",
    limits: { time_s: "1.5" },
  });
});

test("a limit that is no number is told where it stands", () => {
  const cap = fieldsOf(NO_CAP);
  const typed = { ...cap, limits: { ...cap.limits, jobs: "1.5" } };
  expect(mistakeIn([cap, typed])?.field).toBe("caps.1.jobs");
  expect(mistakeIn([{ ...cap, limits: { ...cap.limits, time_s: "1.5" } }])).toBeNull();
});

test("a cap is of each member, of a role or of one user", () => {
  expect(["", "role:member", "role:manager", "user:ada"].map(whomWords)).toEqual([
    "Every member",
    "Members",
    "Managers",
    "ada",
  ]);
});
