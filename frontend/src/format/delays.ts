import { plural } from "./amount";
import { duration } from "./time";

/** The delays of waiting jobs: their names, in the order in which the first one that holds counts. */
export const DELAYS = [
  { key: "not_eligible_s", label: "Not eligible", colour: "var(--gpu-other)" },
  { key: "fair_share_s", label: "Fair share", colour: "var(--chart-1)" },
  { key: "capacity_s", label: "Capacity", colour: "var(--chart-3)" },
  { key: "apart_s", label: "Fragmentation", colour: "var(--chart-2)" },
  { key: "order_s", label: "Order", colour: "var(--chart-4)" },
  { key: "other_s", label: "Other", colour: "var(--line-strong)" },
] as const;

export type DelaySums = Record<(typeof DELAYS)[number]["key"], number>;

/** The delays in their order, s. */
export const partsOf = (sums: DelaySums): number[] => DELAYS.map(({ key }) => sums[key]);

/** The delays that took any time, the longest first. */
export const longestFirst = (sums: DelaySums): { label: string; colour: string; seconds: number }[] =>
  DELAYS.map(({ key, label, colour }) => ({ label, colour, seconds: sums[key] }))
    .filter(({ seconds }) => seconds >= 1)
    .sort((one, other) => other.seconds - one.seconds);

/** The mean wait of starts, and of jobs that wait still. */
export type MeanWait = DelaySums & { starts: number; waiting: number };

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

/** The mean over all rows in a sentence, for charts too: the delays that took any time, in their order. */
export function meanWords(rows: readonly MeanWait[]): string {
  const sum = (of: (row: MeanWait) => number) => rows.reduce((all, row) => all + of(row), 0);
  const [starts, waiting] = [sum((row) => row.starts), sum((row) => row.waiting)];
  if (starts + waiting === 0) return "Nothing has started in this time, and nothing waits.";
  const parts = DELAYS.map(({ key, label }) => {
    const mean = sum((row) => (row.starts + row.waiting) * row[key]) / (starts + waiting);
    return mean < 0.5 ? "" : `${label.toLowerCase()} ${shortDuration(mean)}`;
  }).filter((part) => part !== "");
  const beside = waiting === 0 ? "" : ` and ${plural(waiting, "waiting job")}`;
  return `Mean over ${plural(starts, "start")}${beside}: ${parts.length === 0 ? "no wait" : parts.join(", ")}.`;
}
