import type { RunTimeEstimate } from "../../api/types";
import { duration } from "../../format/time";

const SOURCES: Record<RunTimeEstimate["source"], string> = {
  user: "its owner's estimate",
  history: "by the last jobs alike",
  limit: "its time limit",
  doubled: "doubled: it has run for longer than was expected",
};

/** How long a job is expected to run, and where that comes from. */
export function estimateWords({ expected_s: seconds, source }: RunTimeEstimate): string {
  return `${duration(seconds)} (${SOURCES[source]})`;
}
