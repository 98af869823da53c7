import type { JobRate, RunTimeEstimate } from "../../api/types";
import { duration } from "../../format/time";

const SOURCES: Record<RunTimeEstimate["source"], string> = {
  user: "its owner's estimate",
  history: "from similar jobs before it",
  model: "learned from jobs that have ended",
  limit: "its time limit",
  progress: "from its steps so far",
  sweep: "the steps that its sweep expects of it",
  outlived: "it has run for longer than nine of ten such jobs",
};

/** How long a job is expected to run, and where that comes from. */
export function estimateWords({
  expected_s: seconds,
  p10_s: low,
  p90_s: high,
  source,
}: RunTimeEstimate): string {
  const between =
    low === null || high === null ? "" : `, 8 in 10 between ${duration(low)} and ${duration(high)}`;
  return `${duration(seconds)} (${SOURCES[source]}${between})`;
}

/** How fast a job is on one GPU type, such as `4 A100: 410 ± 30 per second, measured`. */
export function rateWords({ gpu_type: type, gpus, per_s: rate, deviation, source }: JobRate): string {
  if (rate === 0) return `${String(gpus)} ${type}: does not run there`;
  const around = deviation === null ? "" : ` ± ${deviation.toPrecision(2)}`;
  return `${String(gpus)} ${type}: ${Number(rate.toPrecision(3)).toString()}${around} per second, ${source}`;
}
