import type { Attempt } from "../../api/types";
import { plural } from "../../format/amount";

/** The GPUs of an attempt on all its nodes. */
export const gpusOf = (attempt: Attempt): number =>
  attempt.allocations.reduce((sum, allocation) => sum + allocation.gpus.length, 0);

/** `4 GPUs`, with the size of the attempt before it if that was another one. */
export function sizeWords(attempt: Attempt, before: Attempt | undefined): string {
  const gpus = gpusOf(attempt);
  if (before?.stage !== "full" || gpusOf(before) === gpus) return plural(gpus, "GPU");
  return `${plural(gpus, "GPU")}, ${gpus > gpusOf(before) ? "grown" : "shrunk"} from ${gpusOf(before)}`;
}
