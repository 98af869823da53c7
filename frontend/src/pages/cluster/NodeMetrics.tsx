import { SegmentedControl } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useId, useMemo, useState } from "react";

import { METRICS_POLL_MS, nodeMetricsQuery } from "../../api/queries";
import { groupsOfNode } from "../../components/charts/charts";
import { MetricsLoading, MetricsPanel } from "../../components/charts/MetricsPanel";
import { Failed } from "../../components/Notice";
import classes from "./NodeMetrics.module.css";

const WINDOWS = [
  { value: "3600", label: "1 h" },
  { value: "21600", label: "6 h" },
  { value: "86400", label: "1 d" },
  { value: "604800", label: "7 d" },
];

/** What a node's GPUs and the node itself did. */
export default function NodeMetrics({ name }: { name: string }) {
  const title = useId();
  const [lastS, setLastS] = useState("3600");
  const query = useQuery({ ...nodeMetricsQuery(name, Number(lastS)), refetchInterval: METRICS_POLL_MS });
  const metrics = query.data;
  const groups = useMemo(() => (metrics === undefined ? [] : groupsOfNode(metrics)), [metrics]);
  return (
    <section className={classes.section} aria-labelledby={title}>
      <h3 id={title} className="sr-only">
        Metrics
      </h3>
      {metrics !== undefined ? (
        <MetricsPanel
          groups={groups}
          times={metrics.times}
          stepS={metrics.step_s}
          narrow
          controls={
            <SegmentedControl
              size="xs"
              aria-label="Which time is shown"
              data={WINDOWS}
              value={lastS}
              onChange={setLastS}
            />
          }
          empty="Its agent has sent no readings in this time."
        />
      ) : query.isError ? (
        <Failed error={query.error} onRetry={() => void query.refetch()} />
      ) : (
        <MetricsLoading charts={3} narrow />
      )}
    </section>
  );
}
