import { IconFilter } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";

import type { JobWithSpec } from "../../api/types";
import { Ago } from "../../components/Time";
import { reasonWords, verdictWords } from "../../format/words";
import classes from "./NoteCard.module.css";
import { NoteCard } from "./NoteCard";
import own from "./ScreeningCard.module.css";

type ScreeningRun = JobWithSpec["screening_runs"][number];

/** `told`: the failure is also the job's own, so another card shows its line and hint. */
function RunRow({ jobId, run, told }: { jobId: number; run: ScreeningRun; told: boolean }) {
  const failure = run.failure === "" ? null : run.failure;
  return (
    <li>
      <h3 className={`${classes.title} ${own.title}`} data-bad={run.verdict === "failed" || undefined}>
        {verdictWords(run.verdict)}
        {failure === null ? "" : `: ${reasonWords(failure)}`}
      </h3>
      <p className={classes.small}>
        {run.attempt === null ? null : (
          <>
            <Link
              to="/jobs/$jobId"
              params={{ jobId: String(jobId) }}
              search={{ tab: "logs", attempt: String(run.attempt) }}
              className="link"
            >
              Attempt {run.attempt}
            </Link>{" "}
            on {run.gpus} of {run.gpus_asked} GPUs, {Math.round(run.ran_s)} s ·{" "}
          </>
        )}
        <Ago at={run.at} />
      </p>
      {run.detail === "" ? null : <p className={classes.small}>{run.detail}</p>}
      {run.line === "" || told ? null : <pre className={classes.line}>{run.line}</pre>}
      {run.hint === "" || told ? null : <p className={classes.small}>{run.hint}</p>}
    </li>
  );
}

/** The screening runs of a job: on a few GPUs, before it gets all that it asks for. */
export function ScreeningCard({ job }: { job: JobWithSpec }) {
  if (job.screening_runs.length === 0) return null;
  return (
    <NoteCard icon={<IconFilter size={18} stroke={1.8} />} label="Screening on a few GPUs" tone="active">
      <ul className={own.list}>
        {job.screening_runs.map((run) => (
          <RunRow
            key={run.at}
            jobId={job.id}
            run={run}
            told={job.failure?.class === run.failure && job.failure.line === run.line}
          />
        ))}
      </ul>
    </NoteCard>
  );
}
