import { IconScale } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";

import { jobFairnessQuery, useFallbackInterval } from "../../api/queries";
import type { Job, JobFairness } from "../../api/types";
import { plural } from "../../format/amount";
import { duration } from "../../format/time";
import classes from "./NoteCard.module.css";
import { NoteCard } from "./NoteCard";

/** How much slower the job is than alone; nothing for a job without GPUs, or a member of a sweep, which has the figure. */
export function FairnessCard({ job }: { job: Job }) {
  const query = useQuery({
    ...jobFairnessQuery(job.id),
    enabled: job.gpus_total > 0 && job.group === null,
    refetchInterval: useFallbackInterval(),
  });
  return query.data === undefined ? null : <FairnessWords fairness={query.data} />;
}

/** The same, of what is known. */
export function FairnessWords({ fairness }: { fairness: JobFairness }) {
  const { sentence, taken_s, alone_s, contention } = fairness;
  return (
    <NoteCard icon={<IconScale size={18} stroke={1.8} />} label="Fairness">
      <h2 className={classes.title}>{sentence.charAt(0).toUpperCase() + sentence.slice(1)}</h2>
      {taken_s === null || alone_s === null || contention === null ? null : (
        <p className={`${classes.small} ${classes.sentence}`}>
          {[
            `${duration(taken_s)} from submission to ${fairness.final ? "end" : "its expected end"}`,
            `${duration(alone_s)} of work`,
            `${contention.toFixed(1)} jobs and sweeps on average on ${plural(fairness.pool_gpus, "GPU")}`,
          ].join(" · ")}
        </p>
      )}
    </NoteCard>
  );
}
