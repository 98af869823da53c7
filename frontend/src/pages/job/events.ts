import { humanize, reasonWords } from "../../format/words";
import type { JobEvent } from "../../api/types";

const WORDS: Record<string, string> = {
  "job.submitted": "Submitted",
  "job.queued": "Queued again",
  "job.active": "Left the queue",
  "job.succeeded": "Succeeded",
  "job.failed": "Failed",
  "job.cancelled": "Cancelled",
  "job.cancel_asked": "Cancellation asked for",
  "job.requeue_asked": "Requeue asked for",
  "job.edited": "Edited",
  "job.held": "Held back",
  "job.cells_lost": "Lost its cells",
  "job.released": "Released",
  "job.reordered": "Put in order among its owner's jobs",
  "job.bumped": "Put at the top of its virtual cluster",
  "job.unbumped": "No longer at the top",
  "job.advice": "Advice",
  "job.log_rule": "A rule matched its log",
  "job.reserved": "GPUs kept for it while others stop",
  "job.paused": "Paused by its sweep",
  "job.resumed": "Resumed by its sweep",
  "job.resize_failed": "A resize failed",
  "job.screening_passed": "Passed screening",
  "job.screening_failed": "Failed in screening",
  "job.screening_inconclusive": "Screening was inconclusive",
  "job.screening_interrupted": "Screening was interrupted",
  "job.screening_skipped": "Goes on unscreened",
  "attempt.placed": "Attempt placed",
  "attempt.starting": "Attempt starting",
  "attempt.progress": "Preparing",
  "attempt.running": "Attempt running",
  "attempt.idle": "GPUs are idle",
  "attempt.busy": "GPUs at work again",
  "attempt.kept": "Failed, and kept to be looked at",
  "attempt.stopping": "Attempt stopping",
  "attempt.succeeded": "Attempt succeeded",
  "attempt.failed": "Attempt failed",
  "attempt.cancelled": "Attempt cancelled",
  "attempt.preempted": "Attempt preempted",
  "attempt.lost": "Attempt lost",
  "attempt.stop_reason": "Another reason for the stop",
  "attempt.outputs": "Files collected",
  "shell.requested": "Shell asked for",
  "shell.open": "Shell opened",
  "shell.closed": "Shell closed",
};

/** These repeat what the name of the event says already. */
const SAID = new Set(["from", "state"]);

export const eventWords = (kind: string): string => WORDS[kind] ?? humanize(kind);

function valueWords(key: string, value: unknown): string {
  if (Array.isArray(value)) return value.map((each) => valueWords(key, each)).join(", ");
  if (typeof value === "string") return key === "reason" ? reasonWords(value) : value;
  return JSON.stringify(value);
}

/** What an event carries beside its name, as short pairs. */
export function eventFacts(event: JobEvent): { name: string; value: string }[] {
  return Object.entries(event.data)
    .filter(([key, value]) => !SAID.has(key) && value !== null && value !== "")
    .map(([key, value]) => ({ name: humanize(key).toLowerCase(), value: valueWords(key, value) }));
}
