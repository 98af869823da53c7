import { IconAlertOctagon } from "@tabler/icons-react";

import type { Job } from "../../api/types";
import { categoryWords, reasonWords } from "../../format/words";
import classes from "./NoteCard.module.css";
import { NoteCard } from "./NoteCard";

const ADVICE: Record<string, string> = {
  no: "another try would fail in the same way",
  yes: "another try may succeed",
  elsewhere: "another node may do better",
};

/** Why a job failed, and what to do about it. */
export function FailureCard({ job }: { job: Job }) {
  const { failure } = job;
  const reason = failure?.title ?? (job.reason === null ? null : reasonWords(job.reason));
  const hint = failure === null ? job.reason_detail : failure.hint;
  const line = failure?.line ?? null;
  const lastWords = failure?.last_words ?? null;
  if (reason === null && hint === null) return null;
  return (
    <NoteCard icon={<IconAlertOctagon size={18} stroke={1.8} />} label="Why did it fail?" tone="failed">
      <h2 className={classes.title}>
        {reason ?? "Failed"}
        {job.exit_code === null || failure?.class === "exit_nonzero" ? "" : `, exit code ${job.exit_code}`}
      </h2>
      {hint === null || hint === "" ? null : <p className={`${classes.text} ${classes.sentence}`}>{hint}</p>}
      {line === null || line === "" ? null : <pre className={classes.line}>{line}</pre>}
      {lastWords === null || lastWords === "" ? null : (
        <>
          <p className={`${classes.text} ${classes.sentence}`}>
            Nothing in its log is known to explain this. It is only the last thing that it printed:
          </p>
          <pre className={classes.line} aria-label="What it printed last">
            {lastWords}
          </pre>
        </>
      )}
      {failure === null ? null : (
        <p className={classes.small}>
          Caused by: {categoryWords(failure.category)}
          {failure.retry === null || ADVICE[failure.retry] === undefined ? "" : ` · ${ADVICE[failure.retry]}`}
        </p>
      )}
      {failure?.retried ? <p className={classes.small}>{failure.retried}</p> : null}
    </NoteCard>
  );
}
