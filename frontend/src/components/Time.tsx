import type { Job } from "../api/types";
import {
  ago,
  clockTime,
  dateOnly,
  duration,
  fullTime,
  roughTime,
  secondsBetween,
  utcTime,
} from "../format/time";
import { useNow } from "./now";

const FORMS = { full: fullTime, clock: clockTime, date: dateOnly, rough: roughTime };

interface TimeProps {
  at: string;
  form?: keyof typeof FORMS;
  className?: string | undefined;
}

/** A moment in the reader's time zone, with the same in UTC on hover. */
export function Time({ at, form = "full", className }: TimeProps) {
  return (
    <time dateTime={at} title={hover(at)} className={className}>
      {FORMS[form](at)}
    </time>
  );
}

const hover = (at: string): string => `${fullTime(at)} · ${utcTime(at)}`;

/** How long ago something was, with the exact time on hover. */
export function Ago({ at }: { at: string }) {
  const now = useNow();
  return (
    <time dateTime={at} title={hover(at)} className="tabular">
      {ago(at, now)}
    </time>
  );
}

/** How long a job's attempts have run together, without the pauses between them. */
export function RunTime({ job }: { job: Pick<Job, "run_time_s" | "running_since"> }) {
  if (job.running_since !== null) return <Ticking from={job.running_since} more={job.run_time_s} />;
  return <span className="tabular">{job.run_time_s > 0 ? duration(job.run_time_s) : "–"}</span>;
}

/** The time from one moment to another, or until now while there is no other. */
export function Elapsed({ from, to }: { from: string; to: string | null }) {
  return to === null ? (
    <Ticking from={from} />
  ) : (
    <span className="tabular">{duration(secondsBetween(from, to))}</span>
  );
}

function Ticking({ from, more = 0 }: { from: string; more?: number }) {
  const now = useNow();
  return <span className="tabular">{duration(more + secondsBetween(from, now))}</span>;
}
