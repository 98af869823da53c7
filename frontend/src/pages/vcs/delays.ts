/** Mean waits of a virtual cluster as stacks of bars. */
import type { Delays } from "../../api/types";
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
  parts: number[];
}

/** A bar for each day or week of the period, also for those in which nothing started. */
export function delayBars({ from, to, by, results }: Delays): DelayBar[] {
  const rows = new Map(results.map((row) => [row.begins, row]));
  return bucketsOf(from, to, by).map((at) => {
    const row = rows.get(at);
    return { at, starts: row?.starts ?? 0, parts: PARTS.map(({ key }) => row?.[key] ?? 0) };
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
  const starts = bars.reduce((sum, bar) => sum + bar.starts, 0);
  if (starts === 0) return "Nothing has started in this time.";
  const mean = (part: number) =>
    bars.reduce((sum, bar) => sum + bar.starts * (bar.parts[part] ?? 0), 0) / starts;
  const parts = PARTS.map(({ label }, part) => `${label.toLowerCase()} ${shortDuration(mean(part))}`);
  return `Mean over ${starts} starts: ${parts.join(", ")}.`;
}
