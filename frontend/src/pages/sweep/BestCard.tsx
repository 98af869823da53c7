import { useElementSize } from "@mantine/hooks";

import type { Sweep } from "../../api/types";
import { figure } from "../../components/charts/charts";
import { linearScale, scaleOf } from "../../components/charts/scales";
import { useNow } from "../../components/now";
import { SectionHead } from "../../components/Page";
import { duration, secondsBetween } from "../../format/time";
import classes from "./SweepPage.module.css";

const HEIGHT = 180;
const LEFT = 56;
const RIGHT = 16;
const TOP = 10;
const BOTTOM = 24;

/** How the best value came down, or up, with time. */
export function BestCard({ sweep }: { sweep: Sweep }) {
  const { ref, width: seen } = useElementSize();
  const now = useNow();
  const points = sweep.best_so_far.map(([at = 0, value = 0]) => ({ at, value }));
  const first = points[0];
  const last = points.at(-1);
  const width = Math.max(260, seen === 0 ? 520 : seen);
  const end = Math.max(1, last?.at ?? 0, secondsBetween(sweep.submitted_at, sweep.ended_at ?? now));
  const times = linearScale(0, end);
  const values = scaleOf(points.map(({ value }) => value));
  const x = (at: number) => LEFT + (times.place(at) ?? 0) * (width - LEFT - RIGHT);
  const y = (value: number) => TOP + (1 - (values.place(value) ?? 0)) * (HEIGHT - TOP - BOTTOM);
  // A value holds until it is beaten: the line goes in steps.
  const path = points
    .map(({ at, value }, index) => (index === 0 ? `M${x(at)} ${y(value)}` : `H${x(at)}V${y(value)}`))
    .join("");

  return (
    <section className={`card ${classes.card}`} aria-label="Best so far">
      <SectionHead title={`Best ${sweep.metric} so far`} />
      {first === undefined || last === undefined ? (
        <p className={classes.faint}>No member has reported {sweep.metric} yet.</p>
      ) : (
        <figure className={classes.figure} ref={ref}>
          <figcaption className="sr-only">
            {`The best ${sweep.metric} was ${figure(first.value)} after ${duration(first.at)} and is ${figure(last.value)} since ${duration(last.at)} after the submission.`}
          </figcaption>
          <svg width={width} height={HEIGHT} aria-hidden="true" className={classes.best}>
            {values.ticks.map(({ at, label }) => (
              <g key={label}>
                <line
                  x1={LEFT}
                  x2={width - RIGHT}
                  y1={TOP + (1 - at) * (HEIGHT - TOP - BOTTOM)}
                  y2={TOP + (1 - at) * (HEIGHT - TOP - BOTTOM)}
                />
                <text
                  x={LEFT - 8}
                  y={TOP + (1 - at) * (HEIGHT - TOP - BOTTOM)}
                  textAnchor="end"
                  dominantBaseline="central"
                >
                  {label}
                </text>
              </g>
            ))}
            <text x={LEFT} y={HEIGHT - 5}>
              0s
            </text>
            <text x={width - RIGHT} y={HEIGHT - 5} textAnchor="end">
              {duration(end)}
            </text>
            <path d={`${path}H${x(end)}`} />
            {points.map(({ at, value }) => (
              <circle key={`${at} ${value}`} cx={x(at)} cy={y(value)} r={2.6}>
                <title>{`${figure(value)} after ${duration(at)}`}</title>
              </circle>
            ))}
          </svg>
        </figure>
      )}
    </section>
  );
}
