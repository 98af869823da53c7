import { IconFilter } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";

import type { JobWithSpec } from "../../api/types";
import { Ago } from "../../components/Time";
import { reasonWords, verdictWords } from "../../format/words";
import classes from "./NoteCard.module.css";
import { NoteCard } from "./NoteCard";
import own from "./TrialCard.module.css";

type Trial = JobWithSpec["trials"][number];

/** `told`: its failure is the job's own, whose line and hint stand on a card of their own. */
function TrialRow({ jobId, trial, told }: { jobId: number; trial: Trial; told: boolean }) {
  const failure = trial.failure === "" ? null : trial.failure;
  return (
    <li>
      <h3 className={`${classes.title} ${own.title}`} data-bad={trial.verdict === "failed" || undefined}>
        {verdictWords(trial.verdict)}
        {failure === null ? "" : `: ${reasonWords(failure)}`}
      </h3>
      <p className={classes.small}>
        {trial.attempt === null ? null : (
          <>
            <Link
              to="/jobs/$jobId"
              params={{ jobId: String(jobId) }}
              search={{ tab: "logs", attempt: String(trial.attempt) }}
              className="link"
            >
              Attempt {trial.attempt}
            </Link>{" "}
            on {trial.gpus} of {trial.gpus_asked} GPUs, {Math.round(trial.ran_s)} s ·{" "}
          </>
        )}
        <Ago at={trial.at} />
      </p>
      {trial.detail === "" ? null : <p className={classes.small}>{trial.detail}</p>}
      {trial.line === "" || told ? null : <pre className={classes.line}>{trial.line}</pre>}
      {trial.hint === "" || told ? null : <p className={classes.small}>{trial.hint}</p>}
    </li>
  );
}

/** What came of trying the job on a few GPUs before it got its own. */
export function TrialCard({ job }: { job: JobWithSpec }) {
  if (job.trials.length === 0) return null;
  return (
    <NoteCard icon={<IconFilter size={18} stroke={1.8} />} label="Trial on a few GPUs" tone="active">
      <ul className={own.list}>
        {job.trials.map((trial) => (
          <TrialRow
            key={trial.at}
            jobId={job.id}
            trial={trial}
            told={job.failure?.class === trial.failure && job.failure.line === trial.line}
          />
        ))}
      </ul>
    </NoteCard>
  );
}
