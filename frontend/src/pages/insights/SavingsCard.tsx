import { Skeleton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";

import type { UsageFilter } from "../../api/usage";
import { wasteQuery } from "../../api/usageQueries";
import type { Waste } from "../../api/types";
import { Failed } from "../../components/Notice";
import { SectionHead } from "../../components/Page";
import { count, gpuHours, percent, plural } from "../../format/amount";
import { outcomeWords } from "../../format/words";
import classes from "./InsightsPage.module.css";

/** What became of all GPU time, what retries took, and what screening saved and cost. */
export function SavingsCard({ filter }: { filter: UsageFilter }) {
  const query = useQuery(wasteQuery(filter));
  return (
    <section className={`card ${classes.card}`} aria-label="What it was for">
      {query.isPending ? (
        <>
          <SectionHead title="What it was for" term="outcome" />
          <Skeleton height={150} mt={12} />
        </>
      ) : query.data === undefined ? (
        <Failed error={query.error} onRetry={() => void query.refetch()} />
      ) : (
        <Rows waste={query.data} />
      )}
    </section>
  );
}

function Row({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Rows({ waste }: { waste: Waste }) {
  const { retries, screening } = waste;
  const all = waste.total.gpu_hours;
  return (
    <>
      <SectionHead title="What it was for" term="outcome">
        <span>GPU-hours</span>
      </SectionHead>
      {waste.outcomes.length === 0 ? <p className={classes.faint}>No GPU was used.</p> : null}
      <dl className={classes.rows}>
        {waste.outcomes.map((row) => (
          <Row key={row.outcome} name={outcomeWords(row.outcome)}>
            <strong>{gpuHours(row.gpu_hours)}</strong> · {percent(row.gpu_hours, all)} %
          </Row>
        ))}
      </dl>
      <h3 className={classes.sub}>Retries</h3>
      {retries.attempts === 0 ? (
        <p className={classes.faint}>No failed job was retried.</p>
      ) : (
        <dl className={classes.rows}>
          <Row name={`Taken by ${plural(retries.attempts, "try", "tries")} after a failure`}>
            <strong>{gpuHours(retries.gpu_hours)}</strong> · {percent(retries.gpu_hours, all)} %
          </Row>
          <Row name="Of these, wasted too">
            <strong>{gpuHours(retries.wasted_gpu_hours)}</strong>
          </Row>
        </dl>
      )}
      {screening === null ? null : (
        <>
          <h3 className={classes.sub}>Screening</h3>
          {screening.tried + screening.untried + screening.trusted === 0 ? (
            <p className={classes.faint}>No job was screened.</p>
          ) : (
            <dl className={classes.rows}>
              <Row name="Saved by failures found in screening (estimate)">
                <strong>{gpuHours(screening.saved_gpu_hours)}</strong>
              </Row>
              <Row name={`Spent by ${plural(screening.tried, "screening run")}`}>
                <strong>{gpuHours(screening.spent_gpu_hours)}</strong>
              </Row>
              <Row name="Failed · passed · went on unscreened or trusted">
                <strong>{count(screening.failed)}</strong> · {count(screening.passed)} ·{" "}
                {count(screening.untried + screening.trusted)}
              </Row>
            </dl>
          )}
        </>
      )}
    </>
  );
}
