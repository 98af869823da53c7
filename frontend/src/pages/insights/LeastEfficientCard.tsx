import { Skeleton } from "@mantine/core";
import { IconGauge } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import type { UsageFilter } from "../../api/usage";
import { leastEfficientQuery } from "../../api/usageQueries";
import { Empty, Failed } from "../../components/Notice";
import { SectionHead } from "../../components/Page";
import { gpuHours } from "../../format/amount";
import classes from "./InsightsPage.module.css";

/** The jobs whose GPUs were idle for the most GPU-hours. */
export function LeastEfficientCard({ filter }: { filter: UsageFilter }) {
  const query = useQuery(leastEfficientQuery(filter));
  const rows = query.data?.results ?? [];
  return (
    <section className={`card ${classes.card}`} aria-label="Least efficient jobs">
      <SectionHead title="Jobs that left the most GPU time idle" term="efficiency">
        <span>By their longest run</span>
      </SectionHead>
      {query.isPending ? (
        <Skeleton height={150} mt={12} />
      ) : query.data === undefined ? (
        <Failed error={query.error} onRetry={() => void query.refetch()} />
      ) : rows.length === 0 ? (
        <Empty icon={<IconGauge size={20} />} title="No job to show">
          Jobs get a grade when they end, if they ran for ten minutes with GPUs of their own.
        </Empty>
      ) : (
        <ul className={classes.jobs}>
          {rows.map((row) => (
            <li key={row.job}>
              <Link to="/jobs/$jobId" params={{ jobId: String(row.job) }} className={classes.job}>
                <span className={classes.jobName}>
                  <span className="truncate">{row.name}</span>
                  <span className={`${classes.faint} truncate`}>
                    #{row.job} · {row.owner} · {row.vc}
                  </span>
                </span>
                <span className={classes.advice}>{row.advice[0] ?? ""}</span>
                <span className={`${classes.amount} tabular`}>
                  <strong>{gpuHours(row.idle_gpu_hours)}</strong> of {gpuHours(row.gpu_hours)} GPU-hours idle
                </span>
              </Link>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
