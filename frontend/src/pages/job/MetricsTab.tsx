import { SegmentedControl } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";

import { jobMetricsQuery, METRICS_POLL_MS } from "../../api/queries";
import type { Attempt, JobWithSpec } from "../../api/types";
import { groupsOfJob } from "../../components/charts/charts";
import { MetricsLoading, MetricsPanel } from "../../components/charts/MetricsPanel";
import { Failed } from "../../components/Notice";

const WINDOWS = [
  { value: "900", label: "15 min" },
  { value: "10800", label: "3 h" },
  { value: "0", label: "All" },
];

interface Props {
  job: JobWithSpec;
  /** Of the attempt, from 1. */
  number: number;
  /** The attempt itself, once it is read. */
  attempt: Attempt | undefined;
}

/** What an attempt's GPUs and hosts did, live while it runs. */
export default function MetricsTab({ job, number, attempt }: Props) {
  const live = job.state === "active" && number === job.attempts;
  const [lastS, setLastS] = useState("0");
  // The last minutes are those before now: of an attempt that has ended there is only the whole.
  const query = useQuery({
    ...jobMetricsQuery(job.id, number, live ? Number(lastS) : 0),
    refetchInterval: live ? METRICS_POLL_MS : false,
  });
  const metrics = query.data;
  const groups = useMemo(() => (metrics === undefined ? [] : groupsOfJob(metrics)), [metrics]);

  if (metrics === undefined) {
    return query.isError ? (
      <div className="card">
        <Failed error={query.error} onRetry={() => void query.refetch()} />
      </div>
    ) : (
      <MetricsLoading charts={4} />
    );
  }
  return (
    <MetricsPanel
      groups={groups}
      times={metrics.times}
      stepS={metrics.step_s}
      endS={attempt?.ended_at == null ? null : Date.parse(attempt.ended_at) / 1000}
      controls={
        live ? (
          <SegmentedControl
            size="xs"
            aria-label="Which time is shown"
            data={WINDOWS}
            value={lastS}
            onChange={setLastS}
          />
        ) : null
      }
      empty={
        live
          ? "The first readings come within seconds of the start."
          : "The attempt was too short, or its readings are no longer kept."
      }
    />
  );
}
