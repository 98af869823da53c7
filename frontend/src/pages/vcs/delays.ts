/** Mean waits of a virtual cluster as stacks of bars. */
import type { Delays } from "../../api/types";
import { partsOf, type MeanWait } from "../../format/delays";
import { bucketsOf } from "../../format/periods";

export interface DelayBar {
  at: string;
  /** The starts of the day or week, and in the last one the jobs that wait still; null: there are none. */
  mean: MeanWait | null;
  parts: number[];
}

const NOTHING = partsOf({
  not_eligible_s: 0,
  fair_share_s: 0,
  capacity_s: 0,
  apart_s: 0,
  order_s: 0,
  other_s: 0,
});

/** A bar for each day or week of the period, also for those in which nothing started. The last has the jobs that wait. */
export function delayBars({ from, to, by, results }: Delays): DelayBar[] {
  const rows = new Map(results.map((row) => [row.begins, row]));
  return bucketsOf(from, to, by).map((at) => {
    const row = rows.get(at);
    return row === undefined ? { at, mean: null, parts: NOTHING } : { at, mean: row, parts: partsOf(row) };
  });
}
