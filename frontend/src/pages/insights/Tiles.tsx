import { Skeleton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";

import type { UsageFilter } from "../../api/usage";
import { leastEfficientQuery, wasteQuery } from "../../api/usageQueries";
import { gpuHours, percent, plural } from "../../format/amount";
import { failedOrCancelled } from "./insights";
import classes from "./InsightsPage.module.css";

function Tile({
  name,
  figure,
  sub,
  bad = false,
}: {
  name: string;
  figure: ReactNode;
  sub: string;
  bad?: boolean;
}) {
  return (
    <div className={classes.tile}>
      <dt>{name}</dt>
      <dd className={classes.figure} data-bad={bad || undefined}>
        {figure}
      </dd>
      <dd className={classes.tileSub}>{sub}</dd>
    </div>
  );
}

const BAD_PERCENT = 25;

/** The four figures that say how it stands; where they cannot be read, the cards below say so. */
export function Tiles({ filter }: { filter: UsageFilter }) {
  const waste = useQuery(wasteQuery(filter)).data;
  const graded = useQuery(leastEfficientQuery(filter)).data?.total;
  const hours = waste?.total.gpu_hours ?? 0;
  const wasted = percent(waste?.wasted_gpu_hours ?? 0, hours);
  const wait = <Skeleton height={30} width={84} my={3} />;
  return (
    <dl className={`card ${classes.tiles}`}>
      <Tile
        name="GPU-hours"
        figure={waste === undefined ? wait : gpuHours(hours)}
        sub={waste === undefined ? " " : plural(waste.total.jobs, "job")}
      />
      <Tile
        name="Wasted"
        figure={waste === undefined ? wait : hours > 0 ? `${wasted} %` : "–"}
        bad={wasted >= BAD_PERCENT}
        sub={waste === undefined ? " " : `${gpuHours(waste.wasted_gpu_hours)} GPU-hours came to nothing`}
      />
      <Tile
        name="Share used by failed or cancelled jobs"
        figure={waste === undefined ? wait : hours > 0 ? `${failedOrCancelled(waste)} %` : "–"}
        sub="Of all GPU time, with all of their tries"
      />
      <Tile
        name="GPU utilisation"
        figure={
          graded === undefined
            ? wait
            : graded.utilization === null
              ? "–"
              : `${Math.round(graded.utilization)} %`
        }
        sub={
          graded === undefined
            ? " "
            : graded.jobs === 0
              ? "No job has a grade yet"
              : `Mean of ${plural(graded.jobs, "job")} that ended`
        }
      />
    </dl>
  );
}
