/** From GPU-hours as the server tells them to what the page draws: stacks of bars, shares, and words for them. */
import type { Outcome, Usage, UsageRow, Waste } from "../../api/types";
import { percent } from "../../format/amount";
import { bucketsOf } from "../../format/periods";

/** What outcomes have in common for who looks at a chart; each has a colour of its own. */
export const GROUPS = [
  { key: "succeeded", label: "Succeeded", outcomes: ["succeeded"] },
  { key: "going", label: "In progress", outcomes: ["running", "preempted"] },
  { key: "stopped", label: "Cancelled by the owner", outcomes: ["cancelled", "requeued"] },
  { key: "screening", label: "Screening", outcomes: ["screening"] },
  { key: "wasted", label: "Wasted", outcomes: ["failed", "work_lost", "node_lost"] },
] as const satisfies readonly { key: string; label: string; outcomes: readonly Outcome[] }[];
export type Group = (typeof GROUPS)[number]["key"];

export interface Bar {
  /** The first day, such as `2026-11-22`. */
  at: string;
  parts: Record<Group, number>;
  total: number;
}

const GROUP_OF = new Map<string, Group>(
  GROUPS.flatMap(({ key, outcomes }) => outcomes.map((outcome): [string, Group] => [outcome, key])),
);

/** A bar for each day or week of the period, also for those without usage. */
export function barsOf(usage: Usage, by: "day" | "week"): Bar[] {
  const bars = new Map(bucketsOf(usage.from, usage.to, by).map((at) => [at, emptyBar(at)]));
  for (const row of usage.results) {
    const bar = bars.get(bucketOf(row, by));
    const group = GROUP_OF.get(row.outcome ?? "");
    if (bar === undefined || group === undefined) continue;
    bar.parts[group] += row.gpu_hours;
    bar.total += row.gpu_hours;
  }
  return [...bars.values()];
}

const bucketOf = (row: UsageRow, by: "day" | "week"): string => row[by] ?? "";

const emptyBar = (at: string): Bar => ({
  at,
  parts: { succeeded: 0, going: 0, stopped: 0, screening: 0, wasted: 0 },
  total: 0,
});

/** The upper end of an axis that is a round number, and not less than the largest value. */
export function ceilingOf(most: number): number {
  if (most <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return ([1, 2, 5, 10].find((step) => step * power >= most) ?? 10) * power;
}

/** How much of the GPU time went to jobs that have failed or were cancelled, in per cent: Philly's figure. */
export function failedOrCancelled(waste: Waste): number {
  const hours = waste.states
    .filter(({ state }) => state === "failed" || state === "cancelled")
    .reduce((sum, row) => sum + row.gpu_hours, 0);
  return percent(hours, waste.total.gpu_hours);
}

/** The sentence that says a chart to who cannot see it. */
export function inWords(bars: readonly Bar[], by: "day" | "week", format: (value: number) => string): string {
  const total = bars.reduce((sum, bar) => sum + bar.total, 0);
  const most = bars.reduce<Bar | null>(
    (best, bar) => (best === null || bar.total > best.total ? bar : best),
    null,
  );
  if (most === null || total === 0) return "No GPU was used.";
  const parts = GROUPS.map(({ key, label }) => ({
    label,
    hours: bars.reduce((sum, bar) => sum + bar.parts[key], 0),
  })).filter(({ hours }) => hours > 0);
  const told = parts.map(({ label, hours }) => `${label.toLowerCase()} ${format(hours)}`).join(", ");
  return `${format(total)} GPU-hours: ${told}. The most in the ${by} of ${most.at}: ${format(most.total)}.`;
}

/** One tenant or user, and what its jobs took. */
export interface Consumer {
  name: string;
  gpuHours: number;
  wastedGpuHours: number;
}

/** GPU-hours by tenant or by user, the largest first; `usage` tells them and outcomes apart. */
export function consumersOf(usage: Usage, by: "tenant" | "user"): Consumer[] {
  const consumers = new Map<string, Consumer>();
  for (const row of usage.results) {
    const name = row[by];
    if (name === null) continue;
    const consumer = consumers.get(name) ?? { name, gpuHours: 0, wastedGpuHours: 0 };
    consumer.gpuHours += row.gpu_hours;
    if (GROUP_OF.get(row.outcome ?? "") === "wasted") consumer.wastedGpuHours += row.gpu_hours;
    consumers.set(name, consumer);
  }
  return [...consumers.values()].sort((one, other) => other.gpuHours - one.gpuHours);
}
