import { expect, it } from "vitest";

import type { Usage, UsageRow, Waste } from "../../api/types";
import { gpuHours } from "../../format/amount";
import { PERIODS, periodOf } from "../../format/periods";
import { barsOf, ceilingOf, failedOrCancelled, GROUPS, inWords } from "./insights";

const NOTHING: UsageRow = {
  class: null,
  gpu_hours: 0,
  jobs: 1,
  attempts: 1,
  tenant: null,
  vc: null,
  user: null,
  gpu_type: null,
  day: null,
  week: null,
  state: null,
  outcome: null,
  failure: null,
  category: null,
  retry: null,
};

function usage(from: string, to: string, results: Partial<UsageRow>[]): Usage {
  return {
    from,
    to,
    by: [],
    total: { gpu_hours: 0, jobs: 0, attempts: 0 },
    results: results.map((row) => ({ ...NOTHING, ...row })),
  };
}

it("has a bar for each day, also for those without use", () => {
  const bars = barsOf(
    usage("2026-11-19T22:00:00Z", "2026-11-22T08:00:00Z", [
      { day: "2026-11-19", outcome: "succeeded", gpu_hours: 2 },
      { day: "2026-11-22", outcome: "failed", gpu_hours: 3 },
      { day: "2026-11-22", outcome: "node_lost", gpu_hours: 1 },
      { day: "2026-11-22", outcome: "preempted", gpu_hours: 0.5 },
    ]),
    "day",
  );
  expect(bars.map((bar) => [bar.at, bar.total])).toEqual([
    ["2026-11-19", 2],
    ["2026-11-20", 0],
    ["2026-11-21", 0],
    ["2026-11-22", 4.5],
  ]);
  expect(bars[3]?.parts).toEqual({ succeeded: 0, going: 0.5, stopped: 0, screening: 0, wasted: 4 });
});

it("begins weeks on Mondays", () => {
  const rows = [{ week: "2026-11-16", outcome: "succeeded" as const, gpu_hours: 7 }];
  const bars = barsOf(usage("2026-11-15T10:00:00Z", "2026-11-22T10:00:00Z", rows), "week");
  expect(bars.map((bar) => [bar.at, bar.total])).toEqual([
    ["2026-11-09", 0],
    ["2026-11-16", 7],
  ]);
});

it("puts each outcome into one group", () => {
  const outcomes = GROUPS.flatMap((group) => [...group.outcomes]);
  expect(outcomes.toSorted()).toEqual(
    [
      "cancelled",
      "failed",
      "node_lost",
      "preempted",
      "requeued",
      "running",
      "screening",
      "succeeded",
      "work_lost",
    ].toSorted(),
  );
});

it.each([
  [0, 1],
  [0.03, 0.05],
  [1, 1],
  [7.2, 10],
  [120, 200],
  [4999, 5000],
])("ends an axis of %d at %d", (most, end) => {
  expect(ceilingOf(most)).toBeCloseTo(end);
});

it("counts all tries of jobs that failed or were cancelled, as Philly did", () => {
  const state = (name: "succeeded" | "failed" | "cancelled" | "active", gpu_hours: number) => ({
    state: name,
    gpu_hours,
    jobs: 1,
    attempts: 1,
  });
  const waste = {
    total: { gpu_hours: 100, jobs: 4, attempts: 4 },
    states: [state("succeeded", 40), state("failed", 35), state("cancelled", 20), state("active", 5)],
  } as Waste;
  expect(failedOrCancelled(waste)).toBe(55);
  expect(failedOrCancelled({ ...waste, states: [], total: { gpu_hours: 0, jobs: 0, attempts: 0 } })).toBe(0);
});

it("says a chart in words", () => {
  const bars = barsOf(
    usage("2026-11-21T00:00:00Z", "2026-11-22T08:00:00Z", [
      { day: "2026-11-21", outcome: "succeeded", gpu_hours: 2 },
      { day: "2026-11-22", outcome: "failed", gpu_hours: 3 },
    ]),
    "day",
  );
  expect(inWords(bars, "day", gpuHours)).toBe(
    "5.00 GPU-hours: succeeded 2.00, wasted 3.00. The most in the day of 2026-11-22: 3.00.",
  );
  expect(inWords([], "day", gpuHours)).toBe("No GPU was used.");
});

it("shows the last week unless another period is asked for", () => {
  expect(periodOf(undefined)).toBe(PERIODS[0]);
  expect(periodOf("400d")).toBe(PERIODS[0]);
  expect(periodOf("90d").by).toBe("week");
});
