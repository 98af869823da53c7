/** Mean waits of a virtual cluster as stacks of bars. */
import type { Delays } from "../../api/types";
import { plural } from "../../format/amount";
import { bucketsOf } from "../../format/periods";
import { duration } from "../../format/time";

export const PARTS = [
  { key: "fair_share_s", label: "Fair-share delay", colour: "var(--chart-1)" },
  { key: "fragmentation_s", label: "Fragmentation delay", colour: "var(--chart-3)" },
  { key: "other_s", label: "Other waits", colour: "var(--gpu-other)" },
] as const;

export interface DelayBar {
  at: string;
  starts: number;
  /** Jobs that wait still, with their wait so far. */
  waiting: number;
  parts: number[];
}

/** A bar for each day or week of the period, also for those in which nothing started. The last has the jobs that wait. */
export function delayBars({ from, to, by, results }: Delays): DelayBar[] {
  const rows = new Map(results.map((row) => [row.begins, row]));
  return bucketsOf(from, to, by).map((at) => {
    const row = rows.get(at);
    const [starts, waiting] = [row?.starts ?? 0, row?.waiting ?? 0];
    return { at, starts, waiting, parts: PARTS.map(({ key }) => row?.[key] ?? 0) };
  });
}

const MINUTE = 60;
const HOUR = 3600;
const DAY = 86_400;
const STEPS_S = [
  10,
  30,
  MINUTE,
  2 * MINUTE,
  10 * MINUTE,
  20 * MINUTE,
  HOUR,
  2 * HOUR,
  4 * HOUR,
  12 * HOUR,
  DAY,
  2 * DAY,
];

/** The upper end of an axis that is a round time, and not less than the largest value. */
export function ceilingOfTime(most: number): number {
  return STEPS_S.find((step) => step >= most) ?? Math.ceil(most / (4 * DAY)) * 4 * DAY;
}

/** A length of time without a second unit that is zero: `2h`, `1h 30m`. */
export const shortDuration = (seconds: number): string => duration(seconds).replace(/ 0+[smh]$/, "");

/** The sentence that says the chart to who cannot see it. */
export function delayWords(bars: readonly DelayBar[]): string {
  const sum = (of: (bar: DelayBar) => number) => bars.reduce((all, bar) => all + of(bar), 0);
  const [starts, waiting] = [sum((bar) => bar.starts), sum((bar) => bar.waiting)];
  if (starts + waiting === 0) return "Nothing has started in this time, and nothing waits.";
  const mean = (part: number) =>
    sum((bar) => (bar.starts + bar.waiting) * (bar.parts[part] ?? 0)) / (starts + waiting);
  const parts = PARTS.map(({ label }, part) => `${label.toLowerCase()} ${shortDuration(mean(part))}`);
  const beside = waiting === 0 ? "" : ` and ${plural(waiting, "waiting job")}`;
  return `Mean over ${plural(starts, "start")}${beside}: ${parts.join(", ")}.`;
}
