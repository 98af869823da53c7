import { IconBulb } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";

import { jobTrainingQuery, METRICS_POLL_MS } from "../../api/queries";
import type { Job, JobTraining } from "../../api/types";
import { duration } from "../../format/time";
import { adviceWords } from "../../format/words";
import classes from "./NoteCard.module.css";
import { NoteCard } from "./NoteCard";
import own from "./TrainingCard.module.css";

/** What the platform has to say of a job that runs, or has run; nothing where there is nothing. */
export function TrainingCard({ job }: { job: Job }) {
  const query = useQuery({
    ...jobTrainingQuery(job.id),
    refetchInterval: job.state === "active" ? METRICS_POLL_MS : false,
  });
  const training = query.data;
  if (training === undefined) return null;
  return <TrainingWords training={training} />;
}

/** The same, of what is known. */
export function TrainingWords({ training }: { training: JobTraining }) {
  const { advice, checkpoint, rules } = training;
  if (advice.length === 0 && rules.length === 0 && checkpoint === null) return null;
  return (
    <NoteCard icon={<IconBulb size={18} stroke={1.8} />} label="What to look at">
      <div className={own.items}>
        {advice.map((each) => (
          <div key={each.kind}>
            <h2 className={classes.title}>{adviceWords(each.kind)}</h2>
            <p className={`${classes.text} ${classes.sentence}`}>{each.text}</p>
          </div>
        ))}
        {rules.map((each) => (
          <div key={each.rule}>
            <h2 className={classes.title}>The rule “{each.rule}” of the operators matched</h2>
            <pre className={classes.line}>{each.line}</pre>
          </div>
        ))}
        {checkpoint === null ? null : (
          <div>
            <h2 className={classes.title}>Save a checkpoint every {duration(checkpoint.daly_s)}</h2>
            <p className={`${classes.text} ${classes.sentence}`}>{checkpointWords(checkpoint)}</p>
          </div>
        )}
      </div>
    </NoteCard>
  );
}

/** What the interval comes from. */
export function checkpointWords(checkpoint: NonNullable<JobTraining["checkpoint"]>): string {
  const cost = duration(checkpoint.cost_s);
  const measured =
    checkpoint.measured === "reported" ? `one takes ${cost}` : `it took ${cost} to go when it was asked to`;
  const seen = `${checkpoint.failures} ${checkpoint.failures === 1 ? "failure" : "failures"} in ${Math.round(checkpoint.node_hours)} node-hours of its pool`;
  return `By Daly: ${measured}, and its nodes fail every ${duration(checkpoint.mtbf_s)} on average (${seen}).`;
}
