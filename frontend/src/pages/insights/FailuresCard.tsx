import { Skeleton } from "@mantine/core";
import { IconMoodCheck } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";

import type { UsageFilter } from "../../api/usage";
import { wasteQuery } from "../../api/usageQueries";
import { Meter } from "../../components/Meter";
import { Empty, Failed } from "../../components/Notice";
import { SectionHead } from "../../components/Page";
import { gpuHours, percent, plural } from "../../format/amount";
import { categoryWords, reasonWords } from "../../format/words";
import classes from "./InsightsPage.module.css";

const MAX_SHOWN = 8;

/** Of what jobs failed, by the GPU time that it took. */
export function FailuresCard({ filter }: { filter: UsageFilter }) {
  const query = useQuery(wasteQuery(filter));
  const rows = query.data?.failures ?? [];
  const all = query.data?.total.gpu_hours ?? 0;
  const rest = rows.slice(MAX_SHOWN);
  return (
    <section className={`card ${classes.card}`} aria-label="Failures">
      <SectionHead title="Why jobs failed" term="failure">
        <span>Share of all GPU time</span>
      </SectionHead>
      {query.isPending ? (
        <Skeleton height={150} mt={12} />
      ) : query.data === undefined ? (
        <Failed error={query.error} onRetry={() => void query.refetch()} />
      ) : rows.length === 0 ? (
        <Empty icon={<IconMoodCheck size={20} />} title="Nothing failed">
          No attempt that held GPUs in this time has failed.
        </Empty>
      ) : (
        <ul className={classes.list}>
          {rows.slice(0, MAX_SHOWN).map((row) => (
            <li key={`${row.failure} ${row.category} ${row.outcome}`}>
              <Meter
                label={reasonWords(row.failure)}
                name={`${reasonWords(row.failure)}: share of all GPU time`}
                used={row.gpu_hours}
                total={all}
                thin
                figures={
                  <>
                    <strong>{gpuHours(row.gpu_hours)}</strong> GPU-hours · {percent(row.gpu_hours, all)} %
                  </>
                }
              />
              <span className={classes.faint}>
                {categoryWords(row.category)} · {plural(row.attempts, "attempt")}
              </span>
            </li>
          ))}
          {rest.length > 0 ? (
            <li className={classes.faint}>
              {gpuHours(rest.reduce((sum, row) => sum + row.gpu_hours, 0))} GPU-hours of {rest.length} other
              classes
            </li>
          ) : null}
        </ul>
      )}
    </section>
  );
}
