import { SegmentedControl, Skeleton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import type { UsageFilter } from "../../api/usage";
import { delayUsageQuery } from "../../api/usageQueries";
import { StackedBars } from "../../components/charts/StackedBars";
import { Failed } from "../../components/Notice";
import { SectionHead } from "../../components/Page";
import { ceilingOfTime, DELAYS, meanWords, shortDuration } from "../../format/delays";
import classes from "./InsightsPage.module.css";
import { waitStacks } from "./waits";

const BY = [
  { value: "week", label: "Weeks" },
  { value: "tenant", label: "Tenants" },
  { value: "size", label: "GPUs" },
] as const;

/** How long jobs waited before they started, or wait so far, by the five delays: by week, tenant or size. */
export function WaitsCard({ filter }: { filter: UsageFilter }) {
  const [by, setBy] = useState<(typeof BY)[number]["value"]>("week");
  const query = useQuery(delayUsageQuery(by, filter));
  const stacks = query.data === undefined ? [] : waitStacks(query.data, by);
  const most = Math.max(0, ...stacks.map(({ parts }) => parts.reduce((sum, part) => sum + part, 0)));
  const words = query.data === undefined ? "" : meanWords([query.data.total]);
  return (
    <section className={`card ${classes.card}`} aria-label="Waits before a start">
      <SectionHead title="Mean wait before a start">
        <SegmentedControl size="xs" aria-label="Compare waits" data={[...BY]} value={by} onChange={setBy} />
      </SectionHead>
      {query.isPending ? (
        <Skeleton height={232} mt={12} />
      ) : query.data === undefined ? (
        <Failed error={query.error} onRetry={() => void query.refetch()} />
      ) : (
        <>
          <p className={classes.faint}>{words}</p>
          {stacks.length === 0 ? null : (
            <StackedBars
              stacks={stacks}
              series={DELAYS}
              ceiling={ceilingOfTime(most)}
              format={shortDuration}
              words={words}
            />
          )}
        </>
      )}
    </section>
  );
}
