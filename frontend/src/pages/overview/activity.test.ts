import { expect, test } from "vitest";

import { AT, makeGroupRow, makeJob } from "../../testing/makers";
import { happeningOf, happenings } from "./activity";

test("the newest happening comes first, whatever was submitted last", () => {
  const ended = makeJob({ id: 1, state: "succeeded", started_at: AT(5), ended_at: AT(50) });
  const waiting = makeJob({ id: 2, submitted_at: AT(20) });
  expect(happenings([waiting, ended], 10).map((each) => each.job.id)).toEqual([1, 2]);
  expect(happenings([waiting, ended], 1)).toHaveLength(1);
});

test("among the jobs of others each names its owner", () => {
  expect(happenings([makeJob()], 1, true)[0]?.detail).toBe("#7 · ada · vision · 1 GPU");
});

test("a failure says why", () => {
  const job = makeJob({ state: "failed", ended_at: AT(9), reason: "node_lost" });
  expect(happeningOf(job).verb).toBe("failed: Node lost");
});

test("a waiting job says what for and where it stands", () => {
  const hold = { reason: "quota" as const, detail: "", helps: [] };
  expect(happeningOf(makeJob({ hold, position: 3 }))).toMatchObject({
    verb: "waits: quota in use",
    detail: "#7 · vision · 1 GPU · queue position 3",
  });
});

test("a job that was placed and does not run yet is starting", () => {
  expect(happeningOf(makeJob({ state: "active" })).verb).toBe("is starting");
});

test("a group is one happening, with how far its members are", () => {
  const waiting = makeGroupRow({ waiting: 27 });
  expect(happeningOf(waiting, true)).toMatchObject({
    verb: "waits: 0 of 27 ended, 27 waiting",
    detail: "sweep #3 · ada · vision · 27 × 1 GPU",
  });
  const running = makeGroupRow({ waiting: 20, running: 4, failed: 1, succeeded: 2, changed_at: AT(40) });
  expect(happeningOf(running)).toMatchObject({
    at: AT(40),
    verb: "runs: 3 of 27 ended, 4 running, 20 waiting, 1 failed",
  });
  const over = makeGroupRow({ cancelled: 27, ended_at: AT(50) }, { state: "cancelled" });
  expect(happeningOf(over)).toMatchObject({ at: AT(50), verb: "was cancelled: 27 of 27 ended" });
});
