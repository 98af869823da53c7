import { IconScale } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";

import { jobFairnessQuery, useFallbackInterval } from "../../api/queries";
import type { Job, JobFairness } from "../../api/types";
import { Term } from "../../components/Term";
import { duration } from "../../format/time";
import { sentence } from "../../format/words";
import classes from "./JobPage.module.css";

/** How much slower the job is than alone. A job without GPUs has no such figure, and a member of a sweep has its sweep's. */
export function FairnessLine({ job }: { job: Job }) {
  const query = useQuery({
    ...jobFairnessQuery(job.id),
    enabled: job.gpus_total > 0 && job.group === null,
    refetchInterval: useFallbackInterval(),
  });
  return query.data === undefined ? null : <FairnessWords fairness={query.data} />;
}

/** Nothing where there is no figure. */
export function FairnessWords({ fairness }: { fairness: JobFairness }) {
  const { final, taken_s, alone_s } = fairness;
  if (taken_s === null || alone_s === null) return null;
  return (
    <p className={classes.fairness}>
      <IconScale size={16} stroke={1.8} aria-hidden="true" />
      <span>
        {sentence(fairness.sentence)}: {duration(taken_s)} from submission to{" "}
        {final ? "end" : "its expected end"} for {duration(alone_s)} of work.
      </span>
      <Term of="rho" />
    </p>
  );
}
