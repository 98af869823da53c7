/** Words for what was forecast of a job's start, and what came of it. */
import type { WaitForecast } from "../../api/types";
import { duration } from "../../format/time";

const SOURCES: Record<WaitForecast["source"], string> = {
  model: "from earlier waits of this pool",
  forward: "from the policy run forward",
  combined: "from earlier waits and the policy run forward",
};

export const sourceWords = ({ source }: WaitForecast): string => SOURCES[source];

/** How a wait compares with the interval that was forecast at the submission. */
export function outcomeWords(waitedS: number, forecast: WaitForecast): string {
  if (waitedS > forecast.p90_s) return `longer than its p90 of ${duration(forecast.p90_s)}`;
  if (waitedS < forecast.p10_s) return `shorter than its p10 of ${duration(forecast.p10_s)}`;
  return "within its interval";
}
