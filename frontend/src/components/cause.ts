import type { Job } from "../api/types";
import { holdWords, reasonWords } from "../format/words";

/** Why a job is in the state it is in, in a few words, where the state alone does not say it. */
export function causeOf(job: Job): string | null {
  if (job.state === "queued") return job.hold === null ? null : holdWords(job.hold.reason);
  if (job.state === "failed") {
    if (job.failure !== null) return job.failure.title;
    return job.reason === null ? null : reasonWords(job.reason);
  }
  if (job.state === "active") {
    if (job.kept !== null) return "Failed, kept";
    return job.idle === null ? null : "Idle GPUs";
  }
  if (job.reason === "stopped_early") return reasonWords(job.reason);
  return null;
}

/** The same, with what a sweep stopped its member for. */
export function causeInFull(job: Job): string | null {
  const cause = causeOf(job);
  return job.reason === "stopped_early" && job.reason_detail !== null
    ? `${cause}: ${job.reason_detail}`
    : cause;
}

export const isOpen = (job: Job): boolean => job.state === "queued" || job.state === "active";
