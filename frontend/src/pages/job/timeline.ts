import type { Attempt, Job } from "../../api/types";

/** A moment in a job's life. */
export interface Moment {
  name: string;
  at: string | null;
}

/** The time between two moments. */
export interface Phase {
  name: string;
  from: string | null;
  to: string | null;
  status: "done" | "now" | "todo" | "skipped";
}

export interface Timeline {
  moments: readonly Moment[];
  /** One fewer than moments: the phase between each and the next. */
  phases: readonly Phase[];
}

const ENDS: Record<string, string> = { succeeded: "Succeeded", failed: "Failed", cancelled: "Cancelled" };

function phase(name: string, from: string | null, to: string | null, jobEnded: boolean): Phase {
  if (from === null) return { name, from, to: null, status: jobEnded ? "skipped" : "todo" };
  return { name, from, to, status: to === null ? "now" : "done" };
}

/**
 * The moments of a job and the phases between them, as of its newest attempt.
 *
 * 1. A job that is queued again has left its last attempt behind: only the waiting is shown.
 * 2. A try after the first waits from the end of the one before it.
 * 3. A phase that the job never reached before it ended is skipped.
 */
export function timelineOf(job: Job, attempts: readonly Attempt[]): Timeline {
  const sorted = [...attempts].sort((one, other) => one.number - other.number);
  const waitsAgain = job.state === "queued" && sorted.length > 0;
  const attempt = waitsAgain ? undefined : sorted.at(-1);
  const before = waitsAgain ? sorted.at(-1) : sorted.at(-2);
  const queuedFrom = before?.ended_at ?? job.submitted_at;
  const placedAt = attempt?.placed_at ?? null;
  const startedAt = attempt?.started_at ?? null;
  const endedAt = job.ended_at ?? (job.state === "active" ? (attempt?.ended_at ?? null) : null);
  const ended = job.ended_at !== null;
  return {
    moments: [
      { name: before === undefined ? "Submitted" : "Queued again", at: queuedFrom },
      { name: "Placed", at: placedAt },
      { name: "Started", at: startedAt },
      { name: ENDS[job.state] ?? "Ended", at: endedAt },
    ],
    phases: [
      phase("Queued", queuedFrom, placedAt ?? job.ended_at, ended),
      phase("Starting", placedAt, startedAt ?? (placedAt === null ? null : endedAt), ended),
      phase(job.desired === "stop" && !ended ? "Stopping" : "Running", startedAt, endedAt, ended),
    ],
  };
}
