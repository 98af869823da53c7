import { expect, test } from "vitest";

import { Problem } from "../../api/problem";
import type { Organisation } from "../../api/types";
import { AT, makeQuota, makeVc } from "../../testing/makers";
import { ceilingOfTime, meanWords, shortDuration } from "../../format/delays";
import { delayBars } from "./delays";
import { changeOf, formOf, mistakeIn, refusals } from "./form";
import { limitWords, partsOf, partsWords, sumWords, treeOf } from "./shares";

const organisation = (name: string, parent: string | null): Organisation => ({
  id: 1,
  name,
  parent,
  weight: 1,
  version: 1,
  changed_at: AT(0),
  changed_by: "",
  may: "read",
  quotas: [],
  organisations: [],
  tenants: [],
});

test("a quota has parts that are used, lent, free and borrowed", () => {
  const quota = makeQuota({ used: 6, borrowed: 2, lent: 3 });
  expect(partsOf(quota)).toEqual({ held: 4, lent: 3, free: 1, borrowed: 2, opportunistic: 0 });
  expect(partsWords(quota)).toBe("4 of 8 used, 3 lent, 1 free, 2 borrowed");
  expect(partsOf(makeQuota({ gpus: 2, used: 6 }))).toEqual({
    held: 6,
    lent: 0,
    free: 0,
    borrowed: 0,
    opportunistic: 0,
  });
  expect(limitWords(quota)).toBe("borrows without limit, lends all that it does not use");
  expect(limitWords(makeQuota({ borrowing_limit: 0, lending_limit: 4 }))).toBe(
    "borrows nothing, lends at most 4",
  );
});

test("opportunistic GPUs of a pool with cells are beside the quota, and fill nothing of it", () => {
  const within = makeQuota({ used: 6, opportunistic: 4, lent: 1 });
  expect(partsOf(within)).toEqual({ held: 2, lent: 1, free: 5, borrowed: 0, opportunistic: 4 });
  expect(partsWords(within)).toBe("2 of 8 used, 1 lent, 5 free, 4 opportunistic");
  // The three GPUs above the quota are on loan: they are opportunistic, not borrowed a second time.
  const beyond = makeQuota({ used: 11, opportunistic: 5, borrowed: 3 });
  expect(partsOf(beyond)).toEqual({ held: 6, lent: 0, free: 2, borrowed: 0, opportunistic: 5 });
  expect(sumWords([makeVc({ quotas: [within, beyond], waiting: 1 })])).toBe(
    "8 of 16 GPUs used · 9 opportunistic · 1 job waiting",
  );
});

test("virtual clusters are below their tenants, and these below organisations that nest", () => {
  const vcs = [
    makeVc({ name: "a", tenant: "alone" }),
    makeVc({ name: "b", tenant: "bio", organisation: "lab" }),
    makeVc({ name: "c", tenant: "bio", organisation: "lab" }),
  ];
  const [uni, none] = treeOf(vcs, [organisation("lab", "uni"), organisation("uni", null)]);
  expect(uni?.organisation).toBe("uni");
  expect(uni?.below[0]?.tenants.map(({ name, vcs }) => [name, vcs.length])).toEqual([["bio", 2]]);
  expect([none?.organisation, none?.tenants[0]?.name]).toEqual([null, "alone"]);
  expect(sumWords(vcs)).toBe("12 of 24 GPUs used · 6 jobs waiting");
});

test("an organisation above that the caller does not see is the top", () => {
  const [lab] = treeOf([makeVc({ organisation: "lab" })], []);
  expect(lab?.organisation).toBe("lab");
});

test("a form asks for what was changed, and for nothing else", () => {
  const vc = makeVc({ quotas: [makeQuota({ borrowing_limit: 4 })] });
  const form = formOf(vc, ["A100", "V100"]);
  expect(form.quotas.map(({ gpu_type, gpus, borrowing }) => [gpu_type, gpus, borrowing])).toEqual([
    ["A100", "8", "4"],
    ["V100", "", ""],
  ]);
  expect(changeOf(form, vc)).toBeNull();
  const [first, second] = form.quotas;
  const changed = {
    weight: "2",
    quotas: [first && { ...first, borrowing: "" }, second && { ...second, gpus: "3" }].filter(
      (each) => !!each,
    ),
    move: { to: "other", gpu_type: "A100", gpus: "2" },
  };
  expect(changeOf(changed, vc)).toEqual({
    version: 3,
    weight: 2,
    quotas: [
      { gpu_type: "A100", borrowing_limit: null },
      { gpu_type: "V100", gpus: 3 },
    ],
    move: { to: "other", gpu_type: "A100", gpus: 2 },
  });
  expect(mistakeIn(changed)).toBeNull();
  expect(mistakeIn({ ...changed, weight: "0" })?.field).toBe("weight");
  expect(
    mistakeIn({ ...changed, quotas: [{ gpu_type: "A100", gpus: "-1", borrowing: "", lending: "" }] })?.field,
  ).toBe("A100.gpus");
});

test("a refusal of the server is told at its field", () => {
  const change = { version: 3, quotas: [{ gpu_type: "V100", gpus: 9 }] };
  const problem = new Problem(422, "Invalid", "", "invalid", [
    { field: "quotas.0.gpus", message: "the pool has 8 V100" },
    { field: "move.gpus", message: "only 2 can be moved" },
  ]);
  expect([...refusals(problem, change)]).toEqual([
    ["V100.gpus", "The pool has 8 V100"],
    ["move.gpus", "Only 2 can be moved"],
  ]);
});

test("days without a start have a bar of nothing, and means are over all starts", () => {
  const none = { not_eligible_s: 0, fair_share_s: 0, capacity_s: 0, apart_s: 0, order_s: 0, other_s: 0 };
  const row = { ...none, starts: 2, waiting: 0, fair_share_s: 3600, apart_s: 60, fragmentation_s: 60 };
  const bars = delayBars({
    from: "2026-11-20T10:00:00Z",
    to: "2026-11-22T09:00:00Z",
    by: "day",
    results: [{ begins: "2026-11-21", ...row }],
  });
  expect(bars.map(({ at, parts }) => [at, ...parts])).toEqual([
    ["2026-11-20", 0, 0, 0, 0, 0, 0],
    ["2026-11-21", 0, 3600, 0, 60, 0, 0],
    ["2026-11-22", 0, 0, 0, 0, 0, 0],
  ]);
  expect(meanWords([row])).toBe("Mean over 2 starts: fair share 1h, fragmentation 1m.");
  expect(meanWords([])).toBe("Nothing has started in this time, and nothing waits.");
  const today = { ...none, starts: 0, waiting: 1, order_s: 600 };
  expect(meanWords([row, today])).toBe(
    "Mean over 2 starts and 1 waiting job: fair share 40m, fragmentation 40s, order 3m 20s.",
  );
  expect([ceilingOfTime(0), ceilingOfTime(61), ceilingOfTime(5 * 86_400)]).toEqual([10, 120, 8 * 86_400]);
  expect(shortDuration(5400)).toBe("1h 30m");
});
