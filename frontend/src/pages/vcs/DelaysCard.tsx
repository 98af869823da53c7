import { SegmentedControl, Skeleton } from "@mantine/core";
import { IconClock } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { delaysQuery } from "../../api/treeQueries";
import { StackedBars } from "../../components/charts/StackedBars";
import { Empty, Failed } from "../../components/Notice";
import { SectionHead } from "../../components/Page";
import { ceilingOfTime, DELAYS, meanWords, shortDuration } from "../../format/delays";
import { PERIODS, periodOf } from "../../format/periods";
import { delayBars } from "./delays";
import classes from "./VcPage.module.css";

const short = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", timeZone: "UTC" });
const long = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeZone: "UTC" });

/** How long jobs waited before they started, or wait so far, by the five delays. */
export function DelaysCard({ vc }: { vc: number }) {
  const [since, setSince] = useState<string>(PERIODS[0].since);
  const { by } = periodOf(since);
  const query = useQuery(delaysQuery(vc, since, by));
  const bars = query.data === undefined ? [] : delayBars(query.data);
  const most = Math.max(0, ...bars.map(({ parts }) => parts.reduce((sum, part) => sum + part, 0)));
  const words = meanWords(bars.flatMap(({ mean }) => (mean === null ? [] : [mean])));
  return (
    <section className={`card ${classes.card}`} aria-label="Delays">
      <SectionHead title="Mean wait before a start" />
      <SegmentedControl
        className={classes.periods}
        size="xs"
        aria-label="Period of the delays"
        data={PERIODS.map(({ since, label }) => ({ value: since, label }))}
        value={since}
        onChange={setSince}
      />
      {query.isPending ? (
        <Skeleton height={232} />
      ) : query.data === undefined ? (
        <Failed error={query.error} onRetry={() => void query.refetch()} />
      ) : query.data.results.length === 0 ? (
        <Empty icon={<IconClock size={20} />} title="Nothing has started">
          No job of this virtual cluster started in this time, and none waits.
        </Empty>
      ) : (
        <>
          <p className={classes.faint}>{words}</p>
          <StackedBars
            stacks={bars.map((bar) => ({
              label: short.format(new Date(bar.at)),
              title: `${by === "week" ? "Week from " : ""}${long.format(new Date(bar.at))}`,
              parts: bar.parts,
            }))}
            series={DELAYS}
            ceiling={ceilingOfTime(most)}
            format={shortDuration}
            words={words}
          />
        </>
      )}
    </section>
  );
}
