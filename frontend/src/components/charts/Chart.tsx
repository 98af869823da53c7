import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

import classes from "./Chart.module.css";
import { dashOf, spanOf, type ChartData } from "./charts";

export const CHART_HEIGHT = 148;
/** Lines that can be told apart; more of them are one crowd. */
export const MAX_COLOURS = 8;
const AXIS_WIDTH = 64;
const POWERS_OF_TWO = Array.from({ length: 54 }, (_, power) => 2 ** (power - 10));
const DAY = 86_400;
const TIME_STEPS_S = [
  1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200,
].concat([1, 2, 7, 14, 28, 91, 182].map((days) => days * DAY));
/** Agents of idle nodes send a reading every 25 s: what is so close together is one line. */
const MIN_GAP_S = 90;

interface Props {
  chart: ChartData;
  times: readonly number[];
  stepS: number;
  /** When that which is shown ended, in seconds since the epoch; null while it goes on. */
  endS: number | null;
}

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const fineClock = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
});
const date = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const stepWords = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });
const moment = new Intl.DateTimeFormat(undefined, {
  day: "numeric",
  month: "short",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
});

/** A chart on a canvas. What it shows is said beside it in words: who cannot see it misses nothing. */
export default function Chart({ chart, times, stepS, endS }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const tip = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef({ chart, times, stepS, endS });
  const shape = `${chart.name} ${chart.lines.length} ${chart.lines.map((line) => line.label).join("|")}`;

  useEffect(() => {
    latest.current = { chart, times, stepS, endS };
    plot.current?.setData(dataOf(chart, times));
  }, [chart, times, stepS, endS]);

  useEffect(() => {
    const element = host.current;
    const box = tip.current;
    if (element === null || box === null) return;
    const made = new uPlot(
      optionsOf(element, box, () => latest.current),
      dataOf(latest.current.chart, latest.current.times),
      element,
    );
    plot.current = made;
    const size = new ResizeObserver(() => {
      if (element.clientWidth > 0) made.setSize({ width: element.clientWidth, height: CHART_HEIGHT });
    });
    size.observe(element);
    const theme = new MutationObserver(() => made.redraw(false, true));
    theme.observe(document.documentElement, {
      attributes: true,
      attributeFilter: ["data-mantine-color-scheme"],
    });
    return () => {
      size.disconnect();
      theme.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape]);

  return (
    <div className={classes.host} ref={host} aria-hidden="true">
      <div className={classes.tip} ref={tip} hidden />
    </div>
  );
}

/** The times and the lines; a line that is alone also has its largest readings, between which the space is tinted. */
function dataOf(chart: ChartData, times: readonly number[]): uPlot.AlignedData {
  const lines = chart.lines.map((line) => [...line.mean]);
  const [only] = chart.lines;
  if (chart.lines.length === 1 && only !== undefined) lines.push([...only.max]);
  return [[...times], ...lines];
}

type Latest = () => Props;

function optionsOf(host: HTMLElement, tip: HTMLElement, latest: Latest): uPlot.Options {
  const colour = (name: string) => getComputedStyle(host).getPropertyValue(name).trim();
  const { chart } = latest();
  const alone = chart.lines.length === 1;
  const crowd = chart.lines.length > MAX_COLOURS;
  const font = '11.5px "Geist Variable", ui-sans-serif, system-ui, sans-serif';
  const gaps: uPlot.Series.GapsRefiner = (plot, _series, _first, _last, found) =>
    found.filter(
      ([from, to]) => plot.posToVal(to, "x", true) - plot.posToVal(from, "x", true) > gapOf(latest),
    );
  const line = (index: number): uPlot.Series => ({
    stroke: () => colour(crowd ? "--chart-1" : `--chart-${index + 1}`),
    alpha: crowd ? 0.4 : 1,
    width: crowd ? 1 : alone ? 1.5 : 2,
    dash: crowd ? [] : dashOf(index),
    cap: "butt",
    gaps,
    points: { show: true, size: 4, filter: (plot, series) => alones(plot, series, gapOf(latest)) },
  });
  const largest: uPlot.Series = {
    stroke: () => colour("--chart-1"),
    alpha: 0.35,
    width: 1,
    gaps,
    points: { show: false },
  };
  return {
    width: Math.max(120, host.clientWidth),
    height: CHART_HEIGHT,
    padding: [10, 22, 0, 0],
    legend: { show: false },
    cursor: {
      ...(chart.steps === undefined && { sync: { key: "metrics" } }),
      drag: { x: false, y: false },
      points: { size: 7, width: 0, fill: (plot, index) => seriesColour(plot, index, colour, crowd) },
    },
    series: [{}, ...chart.lines.map((_, index) => line(index)), ...(alone ? [largest] : [])],
    ...(alone && {
      bands: [
        { series: [2, 1], fill: () => `color-mix(in srgb, ${colour("--chart-1")} 14%, transparent)` },
      ] satisfies uPlot.Band[],
    }),
    scales: {
      x: {
        time: chart.steps === undefined,
        range: () =>
          chart.steps === undefined
            ? spanOf(latest().times, latest().stepS, latest().endS)
            : spanOfSteps(latest().times),
      },
      y: {
        range: (_plot, least, most) =>
          chart.steps === undefined
            ? [0, Math.max(latest().chart.ceiling ?? 0, (most || 0) * 1.08, 1e-3)]
            : around(least, most),
      },
    },
    axes: [
      {
        stroke: () => colour("--text-3"),
        font,
        size: 28,
        gap: 8,
        space: 62,
        ...(chart.steps === undefined && { incrs: TIME_STEPS_S }),
        grid: { show: false },
        ticks: { show: false },
        values: (_plot, at) =>
          at.map((value) =>
            chart.steps === undefined ? timeLabel(value, latest().times) : stepLabel(value),
          ),
      },
      {
        stroke: () => colour("--text-3"),
        font,
        size: AXIS_WIDTH,
        gap: 8,
        space: 36,
        ...(chart.binary && { incrs: POWERS_OF_TWO }),
        grid: { stroke: () => colour("--line"), width: 1 },
        ticks: { show: false },
        values: (_plot, values) => values.map((value) => latest().chart.format(value)),
      },
    ],
    hooks: { setCursor: [(plot) => showTip(plot, host, tip, latest, colour, crowd)] },
  };
}

/** How far apart two readings are at least between which the line breaks. */
const gapOf = (latest: Latest): number =>
  latest().chart.steps === undefined ? Math.max(MIN_GAP_S, 3 * latest().stepS) : Infinity;

/** The readings that no line leads to or from: without a dot they would not be seen. */
function alones(plot: uPlot, series: number, gapS: number): number[] {
  const times = plot.data[0];
  const known = [...(plot.data[series] ?? [])].flatMap((value, index) =>
    typeof value === "number" ? [index] : [],
  );
  const near = (one: number | undefined, other: number | undefined) =>
    one !== undefined && other !== undefined && Math.abs((times[one] ?? 0) - (times[other] ?? 0)) <= gapS;
  return known.filter((at, place) => !near(at, known[place - 1]) && !near(at, known[place + 1]));
}

function seriesColour(plot: uPlot, index: number, colour: (name: string) => string, crowd: boolean): string {
  const lines = plot.series.length - 1;
  return colour(crowd || index > Math.min(lines, MAX_COLOURS) ? "--chart-1" : `--chart-${index}`);
}

function spanOfSteps(steps: readonly number[]): [number, number] {
  const first = steps[0] ?? 0;
  return [first, Math.max(steps.at(-1) ?? first, first + 1)];
}

/** A loss may lie anywhere, and what it wins late is small: the scale holds its values and no more. */
function around(least: number | null, most: number | null): [number, number] {
  const [from, to] = [least ?? 0, most ?? 1];
  const room = (to - from || Math.abs(to) || 1) * 0.06;
  return [from - room, to + room];
}

const stepLabel = (step: number): string => stepWords.format(step);

function timeLabel(at: number, times: readonly number[]): string {
  const [from, to] = [times[0] ?? at, times.at(-1) ?? at];
  const when = new Date(at * 1000);
  if (to - from < 240) return fineClock.format(when);
  return to - from < 36 * 3600 ? clock.format(when) : date.format(when);
}

/** The values under the cursor. It is drawn without React: it follows the pointer. */
function showTip(
  plot: uPlot,
  host: HTMLElement,
  tip: HTMLElement,
  latest: Latest,
  colour: (name: string) => string,
  crowd: boolean,
): void {
  const { chart, times } = latest();
  const index = plot.cursor.idx;
  const left = plot.cursor.left ?? -1;
  // All charts show the cursor's line at the same time; only the chart under the pointer shows the tip.
  if (index === null || index === undefined || left < 0 || !host.matches(":hover")) {
    tip.hidden = true;
    return;
  }
  const known = chart.lines.flatMap((line, number) => {
    const value = line.mean[index];
    return typeof value === "number" ? [{ label: line.label, value, number }] : [];
  });
  const at = times[index];
  tip.hidden = known.length === 0 || at === undefined;
  if (tip.hidden || at === undefined) return;
  const rows = crowd ? crowdRows(known.map((each) => each.value)) : known;
  tip.replaceChildren(
    text(
      "div",
      classes.when ?? "",
      chart.steps === undefined ? moment.format(new Date(at * 1000)) : `Step ${at}`,
    ),
    ...rows.map((row) => {
      const item = text("div", classes.row ?? "", "");
      const dot = text("span", classes.dot ?? "", "");
      dot.style.background = colour(crowd ? "--chart-1" : `--chart-${row.number + 1}`);
      item.append(dot, text("span", classes.label ?? "", row.label), text("b", "", chart.format(row.value)));
      return item;
    }),
  );
  const at_x = left + AXIS_WIDTH;
  const fits = at_x + 14 + tip.offsetWidth < host.clientWidth;
  tip.style.transform = `translate(${fits ? at_x + 14 : Math.max(0, at_x - 14 - tip.offsetWidth)}px, 8px)`;
}

function crowdRows(values: readonly number[]): { label: string; value: number; number: number }[] {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return [
    { label: "Most", value: Math.max(...values), number: 0 },
    { label: "Mean", value: mean, number: 0 },
    { label: "Least", value: Math.min(...values), number: 0 },
  ];
}

function text(tag: string, name: string, content: string): HTMLElement {
  const element = document.createElement(tag);
  element.className = name;
  element.textContent = content;
  return element;
}
