import { useQuery } from "@tanstack/react-query";

import { whenQuery } from "../../api/predictionQueries";
import { METRICS_POLL_MS } from "../../api/queries";
import type { Job } from "../../api/types";
import { Term } from "../../components/Term";
import { Time } from "../../components/Time";
import { sentence } from "../../format/words";
import { sourceWords } from "./wait";
import classes from "./WhyCard.module.css";

/** When a waiting job is expected to start, and what was forecast at its submission. */
export function StartForecast({ job }: { job: Job }) {
  const when = useQuery({ ...whenQuery(job.id), refetchInterval: METRICS_POLL_MS }).data;
  if (when === undefined) return null;
  const { wait, submitted } = when;
  if (wait === null && when.wait_unknown === "") return null;
  const late = submitted !== null && when.waited_s !== null && when.waited_s > submitted.p90_s;
  return (
    <div className={classes.start} role="group" aria-label="Forecast of its start">
      <h3 className={classes.helpsTitle}>
        When will it start?
        <Term of="wait" />
      </h3>
      {wait === null ? (
        <p>Not known: {when.wait_unknown}.</p>
      ) : (
        <p>
          <strong>{sentence(wait.says)}</strong>
          {when.starts_p50_at === null || when.starts_p90_at === null ? null : (
            <>
              {": as likely as not by "}
              <Time at={when.starts_p50_at} form="rough" />
              {", at 90 % by "}
              <Time at={when.starts_p90_at} form="rough" />
            </>
          )}
          , {sourceWords(wait)}
        </p>
      )}
      {submitted === null ? null : (
        <p>
          At its submission: {submitted.says}
          {late ? "; it has waited longer than that" : ""}
        </p>
      )}
    </div>
  );
}
