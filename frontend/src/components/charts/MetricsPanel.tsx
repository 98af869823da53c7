import { Button, Skeleton } from "@mantine/core";
import { IconChartLine, IconTable } from "@tabler/icons-react";
import { lazy, Suspense, useId, useState, type ReactNode } from "react";

import { loadPart } from "../../api/parts";
import { Empty } from "../Notice";
import { dashOf, extremesOf, newestOf, sentenceOf, summaryOf, type ChartData, type Group } from "./charts";
import classes from "./MetricsPanel.module.css";

// The library that draws is only loaded by who looks at a chart.
const Chart = lazy(() => loadPart(() => import("./Chart")));

const MAX_NAMED = 8;

interface Props {
  groups: readonly Group[];
  times: readonly number[];
  stepS: number;
  /** When that which is shown ended, in seconds since the epoch; null while it goes on. */
  endS?: number | null;
  /** What chooses the window, beside the button for the table. */
  controls?: ReactNode;
  /** True in a narrow place: one chart a row. */
  narrow?: boolean;
  empty: string;
}

/** Charts in groups, or the same as a table. */
export function MetricsPanel({ groups, times, stepS, endS = null, controls, narrow = false, empty }: Props) {
  const [asTable, setAsTable] = useState(false);
  return (
    <div className={classes.panel}>
      <div className={classes.bar}>
        {controls}
        <Button
          className={classes.toggle}
          variant="default"
          size="xs"
          aria-pressed={asTable}
          leftSection={asTable ? <IconChartLine size={15} /> : <IconTable size={15} />}
          onClick={() => setAsTable(!asTable)}
        >
          {asTable ? "Charts" : "Table"}
        </Button>
      </div>
      {groups.length === 0 ? (
        <div className={narrow ? classes.bare : "card"}>
          <Empty icon={<IconChartLine size={20} />} title="Nothing was measured">
            {empty}
          </Empty>
        </div>
      ) : null}
      {groups.map((group) => (
        <GroupSection
          key={group.title}
          group={group}
          times={times}
          stepS={stepS}
          endS={endS}
          asTable={asTable}
          narrow={narrow}
        />
      ))}
    </div>
  );
}

function GroupSection({
  group,
  times,
  stepS,
  endS,
  asTable,
  narrow,
}: {
  group: Group;
  times: readonly number[];
  stepS: number;
  endS: number | null;
  asTable: boolean;
  narrow: boolean;
}) {
  const title = useId();
  const lines = group.charts[0]?.lines ?? [];
  return (
    <section className={classes.group} aria-labelledby={title}>
      <div className={classes.head}>
        <h3 id={title} className={classes.title}>
          {group.title}
        </h3>
        {asTable || lines.length < 2 ? null : <Legend labels={lines.map((line) => line.label)} />}
      </div>
      {asTable ? (
        <FiguresTable group={group} />
      ) : (
        <div className={classes.grid} data-narrow={narrow || undefined}>
          {group.charts.map((chart) => (
            <figure key={chart.name} className={classes.chart}>
              <figcaption className={classes.caption}>
                <span className={classes.name}>{chart.title}</span>
                <span className={`${classes.newest} tabular`} aria-hidden="true">
                  {newestOf(chart)}
                </span>
                <span className={`${classes.extremes} tabular`} aria-hidden="true">
                  {extremesOf(chart)}
                </span>
                <span className="sr-only">{sentenceOf(chart)}</span>
              </figcaption>
              <div className={classes.canvas}>
                <Suspense fallback={null}>
                  <Chart chart={chart} times={chart.steps ?? times} stepS={stepS} endS={endS} />
                </Suspense>
              </div>
            </figure>
          ))}
        </div>
      )}
    </section>
  );
}

function Legend({ labels }: { labels: readonly string[] }) {
  if (labels.length > MAX_NAMED) return <span className={classes.crowd}>{labels.length} lines</span>;
  return (
    <ul className={classes.legend}>
      {labels.map((label, index) => (
        <li key={label} className={classes.key}>
          <svg className={classes.sample} viewBox="0 0 26 8" aria-hidden="true">
            <line
              x2="26"
              y1="4"
              y2="4"
              stroke={`var(--chart-${index + 1})`}
              strokeWidth="2"
              strokeDasharray={dashOf(index).join(" ")}
            />
          </svg>
          {label}
        </li>
      ))}
    </ul>
  );
}

function FiguresTable({ group }: { group: Group }) {
  return (
    <div className={classes.scroller} tabIndex={0} role="region" aria-label={`${group.title} as a table`}>
      <table className={classes.table}>
        <thead>
          <tr>
            <th scope="col">Figure</th>
            <th scope="col">Of</th>
            <th scope="col" className={classes.number}>
              Newest
            </th>
            <th scope="col" className={classes.number}>
              Mean
            </th>
            <th scope="col" className={classes.number}>
              Smallest
            </th>
            <th scope="col" className={classes.number}>
              Largest
            </th>
          </tr>
        </thead>
        <tbody>{group.all.map((chart) => chart.lines.map((_, index) => row(chart, index)))}</tbody>
      </table>
    </div>
  );
}

function row(chart: ChartData, index: number) {
  const line = chart.lines[index];
  const summary = line === undefined ? null : summaryOf(line);
  if (line === undefined || summary === null) return null;
  return (
    <tr key={`${chart.name} ${line.label}`} data-first={index === 0 || undefined}>
      <th scope="row">{index === 0 ? chart.title : <span className="sr-only">{chart.title}</span>}</th>
      <td>{line.label}</td>
      <td className={classes.number}>{chart.format(summary.last)}</td>
      <td className={classes.number}>{chart.format(summary.mean)}</td>
      <td className={classes.number}>{chart.format(summary.min)}</td>
      <td className={classes.number}>{chart.format(summary.max)}</td>
    </tr>
  );
}

/** Stands where the charts will be, as high as they are. */
export function MetricsLoading({ charts, narrow = false }: { charts: number; narrow?: boolean }) {
  return (
    <div className={classes.panel} role="status" aria-busy="true" aria-label="Loading the metrics">
      <div className={classes.bar} />
      <div className={classes.group}>
        <div className={classes.head} />
        <div className={classes.grid} data-narrow={narrow || undefined}>
          {Array.from({ length: charts }, (_, index) => (
            <Skeleton key={index} height={222} radius={12} />
          ))}
        </div>
      </div>
    </div>
  );
}
