import { Skeleton } from "@mantine/core";
import { IconChartHistogram } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";

import type { UsageFilter } from "../../api/usage";
import { usageQuery } from "../../api/usageQueries";
import { StackedBars } from "../../components/charts/StackedBars";
import { Empty, Failed } from "../../components/Notice";
import { SectionHead } from "../../components/Page";
import { gpuHours } from "../../format/amount";
import type { Period } from "../../format/periods";
import { barsOf, ceilingOf, GROUPS, inWords, type Group } from "./insights";
import classes from "./InsightsPage.module.css";

const COLOURS: Record<Group, string> = {
  succeeded: "var(--succeeded)",
  going: "var(--active)",
  stopped: "var(--cancelled)",
  screening: "var(--chart-4)",
  wasted: "var(--failed)",
};
const SERIES = GROUPS.map(({ key, label }) => ({ label, colour: COLOURS[key] }));

const short = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", timeZone: "UTC" });
const long = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeZone: "UTC" });
const label = (value: number): string => (value === 0 ? "0" : gpuHours(value).replace(/\.0+$/, ""));

/** GPU-hours by day or week, and what they were for. */
export function UsageCard({ by, filter }: { by: Period["by"]; filter: UsageFilter }) {
  const query = useQuery(usageQuery(`${by},outcome`, filter));
  const bars = query.data === undefined ? [] : barsOf(query.data, by);
  const ceiling = ceilingOf(Math.max(0, ...bars.map((bar) => bar.total)));
  return (
    <section className={`card ${classes.card}`} aria-label="GPU-hours">
      <SectionHead title={`GPU-hours by ${by}`}>
        <span>{by === "week" ? "Weeks begin on Mondays, UTC" : "Days in UTC"}</span>
      </SectionHead>
      {query.isPending ? (
        <Skeleton height={232} mt={12} />
      ) : query.data === undefined ? (
        <Failed error={query.error} onRetry={() => void query.refetch()} />
      ) : query.data.results.length === 0 ? (
        <Empty icon={<IconChartHistogram size={20} />} title="No GPU was used">
          In this time none of the jobs that you may see here has held a GPU.
        </Empty>
      ) : (
        <StackedBars
          stacks={bars.map((bar) => ({
            label: short.format(new Date(bar.at)),
            title: `${by === "week" ? "Week from " : ""}${long.format(new Date(bar.at))}`,
            parts: GROUPS.map(({ key }) => bar.parts[key]),
          }))}
          series={SERIES}
          ceiling={ceiling}
          format={label}
          words={inWords(bars, by, gpuHours)}
        />
      )}
    </section>
  );
}
