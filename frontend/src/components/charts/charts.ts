/** From the answer about metrics to charts: which there are, their lines, and what is to be said of them in words. */
import type { FigureOverTime, GpuOverTime, JobMetrics, NodeMetrics, ReportedSeries } from "../../api/types";
import { bytes, mebibytes } from "../../format/amount";

export type Values = readonly (number | null)[];

export interface Line {
  label: string;
  mean: Values;
  max: Values;
}

export interface ChartData {
  name: string;
  title: string;
  lines: readonly Line[];
  /** Where the scale ends at least; none: at the largest value. */
  ceiling: number | null;
  format: (value: number) => string;
  /** True where the scale is marked at powers of two. */
  binary: boolean;
  /** The steps of its values, where these are the job's own and not times. */
  steps?: readonly number[];
}

/** The sum of a line over its time, for who reads and does not look. */
export interface Summary {
  /** The smallest mean of a step; of single readings only the largest are kept. */
  min: number;
  mean: number;
  max: number;
  last: number;
}

const short = (value: number): string =>
  value >= 100 || Number.isInteger(value) ? String(Math.round(value)) : value.toFixed(value < 10 ? 1 : 0);

const perCent = (value: number): string => `${Math.round(value)}%`;
const rate = (value: number): string => `${bytes(Math.round(value))}/s`;
const gigahertz = (mhz: number): string => `${(mhz / 1000).toFixed(2)} GHz`;
/** Steps a second or epochs a second: what is small is not nothing. */
const pace = (value: number): string =>
  value === 0 || value >= 1 ? short(value) : String(Number(value.toPrecision(2)));
const suffixed =
  (unit: string) =>
  (value: number): string =>
    `${short(value)} ${unit}`;

interface Kind {
  title: string;
  format: (value: number) => string;
  binary?: true;
  /** Shown in the table only. */
  tableOnly?: true;
}

const GPU: Record<string, Kind> = {
  utilization: { title: "GPU utilisation", format: perCent },
  memory_used_mib: { title: "GPU memory", format: mebibytes, binary: true },
  power_w: { title: "Power", format: suffixed("W") },
  temperature_c: { title: "Temperature", format: suffixed("°C") },
  sm_clock_mhz: { title: "SM clock", format: gigahertz },
  memory_clock_mhz: { title: "Memory clock", format: gigahertz, tableOnly: true },
  ecc_corrected: { title: "Corrected memory errors", format: short, tableOnly: true },
  ecc_uncorrected: { title: "Uncorrected memory errors", format: short, tableOnly: true },
  processes: { title: "Processes on the GPU", format: short, tableOnly: true },
};

const RANK: Record<string, Kind> = {
  progress_s: { title: "Steps per second", format: pace },
  cpu_cores: { title: "CPU cores", format: short },
  memory_mib: { title: "Memory", format: mebibytes, binary: true },
  page_cache_mib: { title: "Page cache", format: mebibytes, binary: true },
  disk_read_bytes_s: { title: "Disk reads", format: rate, binary: true },
  disk_write_bytes_s: { title: "Disk writes", format: rate, binary: true },
  net_receive_bytes_s: { title: "Network in", format: rate, binary: true },
  net_transmit_bytes_s: { title: "Network out", format: rate, binary: true },
  processes: { title: "Processes", format: short, tableOnly: true },
};

const HOST: Record<string, Kind> = {
  cpu_percent: { title: "CPU", format: perCent },
  memory_used_mib: { title: "Memory", format: mebibytes, binary: true },
  load1: { title: "Load", format: short },
};

const FULL_SCALE: Record<string, number> = { utilization: 100, cpu_percent: 100 };

interface Subject {
  label: string;
  figures: readonly FigureOverTime[];
}

export interface Group {
  title: string;
  charts: readonly ChartData[];
  /** What the charts have and what only a table can show. */
  all: readonly ChartData[];
}

export function groupsOfJob(metrics: JobMetrics): Group[] {
  const manyNodes = new Set(metrics.gpus.map((gpu) => gpu.node)).size > 1;
  const label = (gpu: GpuOverTime) => (manyNodes ? `${gpu.node} · GPU ${gpu.index}` : `GPU ${gpu.index}`);
  const memory = Math.max(0, ...metrics.gpus.map((gpu) => gpu.memory_mib));
  return filled([
    reported(metrics.reported),
    group(
      "GPUs",
      GPU,
      metrics.gpus.map((gpu) => ({ label: label(gpu), figures: gpu.figures })),
      { ...FULL_SCALE, memory_used_mib: memory },
    ),
    group(
      "Hosts",
      RANK,
      metrics.ranks.map((rank) => ({ label: `Rank ${rank.rank} on ${rank.node}`, figures: rank.figures })),
      { cpu_cores: 1 },
    ),
  ]);
}

export function groupsOfNode(metrics: NodeMetrics): Group[] {
  const memory = Math.max(0, ...metrics.gpus.map((gpu) => gpu.memory_mib));
  return filled([
    group(
      "GPUs",
      GPU,
      metrics.gpus.map((gpu) => ({ label: `GPU ${gpu.index}`, figures: gpu.figures })),
      { ...FULL_SCALE, memory_used_mib: memory },
    ),
    group("Host", HOST, [{ label: "Host", figures: metrics.host.figures }], {
      ...FULL_SCALE,
      memory_used_mib: metrics.host.memory_mib,
      load1: metrics.host.cpus,
    }),
  ]);
}

/** Where the steps end is no figure of a training. */
const NO_FIGURE = new Set(["total"]);

/** What the job told of itself, the loss first; its steps are its own. */
function reported(series: readonly ReportedSeries[]): Group {
  const first = (name: string) => (/loss/i.test(name) ? 0 : 1);
  const charts = series
    .filter((each) => !NO_FIGURE.has(each.name) && each.values.some((value) => value !== null))
    .toSorted((one, other) => first(one.name) - first(other.name))
    .map((each) => ({
      name: `reported ${each.name}`,
      title: each.from_log ? `${each.name} (from the log)` : each.name,
      lines: [{ label: each.name, mean: each.values, max: each.values }],
      ceiling: null,
      format: figure,
      binary: false,
      steps: each.steps,
    }));
  return { title: "Training", charts, all: charts };
}

/** A figure of any size, with the digits that one reads. */
export const figure = (value: number): string =>
  value !== 0 && (Math.abs(value) >= 1e6 || Math.abs(value) < 1e-3)
    ? value.toExponential(2)
    : String(Number(value.toPrecision(4)));

/** What is known of a line; nothing if it has no value. */
export function summaryOf(line: Line): Summary | null {
  const known = line.mean.filter((value) => value !== null);
  const last = known.at(-1);
  if (last === undefined) return null;
  const most = line.max.filter((value) => value !== null);
  return {
    mean: known.reduce((sum, value) => sum + value, 0) / known.length,
    min: Math.min(...known),
    max: Math.max(...most, ...known),
    last,
  };
}

/** A chart in a sentence. */
export function sentenceOf(chart: ChartData): string {
  const summaries = chart.lines.map(summaryOf).filter((summary) => summary !== null);
  if (summaries.length === 0) return `${chart.title}: nothing was measured.`;
  const mean = summaries.reduce((sum, summary) => sum + summary.mean, 0) / summaries.length;
  const of = chart.lines.length === 1 ? "" : ` over ${chart.lines.length} lines`;
  const { min, max } = extentOf(summaries);
  return (
    `${chart.title}: ${chart.format(mean)} on average${of}, ` +
    `at least ${chart.format(min)}, at most ${chart.format(max)}.`
  );
}

/** The smallest and the largest value of a chart, for the line below its title; "" if it has none. */
export function extremesOf(chart: ChartData): string {
  const summaries = chart.lines.map(summaryOf).filter((summary) => summary !== null);
  if (summaries.length === 0) return "";
  const { min, max } = extentOf(summaries);
  return `smallest ${chart.format(min)}, largest ${chart.format(max)}`;
}

const extentOf = (summaries: readonly Summary[]) => ({
  min: Math.min(...summaries.map((summary) => summary.min)),
  max: Math.max(...summaries.map((summary) => summary.max)),
});

/**
 * The dash pattern of the line at an index, in pixels. Each line that is drawn over others has wider gaps than these, so
 * that lines of one course are all seen.
 */
export const dashOf = (index: number): number[] => (index === 0 ? [] : [9, 6 * index + 3]);

/** The least time that a chart of something that still runs shows, in seconds. */
const MIN_SPAN_S = 60;

/**
 * The first and the last moment of a time axis, in seconds since the epoch.
 *
 * @param endS when that which is shown ended, or null while it goes on
 */
export function spanOf(times: readonly number[], stepS: number, endS: number | null): [number, number] {
  const first = times[0] ?? 0;
  if (endS !== null && endS > first) return [first, endS];
  return [first, Math.max((times.at(-1) ?? first) + stepS, first + MIN_SPAN_S)];
}

/** What is shown beside the title: the newest value, or the span of the newest values. */
export function newestOf(chart: ChartData): string {
  const last = chart.lines.map(summaryOf).flatMap((summary) => (summary === null ? [] : [summary.last]));
  if (last.length === 0) return "–";
  const least = chart.format(Math.min(...last));
  const most = chart.format(Math.max(...last));
  return least === most ? most : `${least} – ${most}`;
}

function group(
  title: string,
  kinds: Record<string, Kind>,
  subjects: readonly Subject[],
  ceilings: Record<string, number>,
): Group {
  const all = Object.entries(kinds).flatMap(([name, kind]) => {
    const lines = subjects.flatMap(({ label, figures }) => {
      const figure = figures.find((each) => each.name === name);
      return figure === undefined ? [] : [{ label, mean: figure.mean, max: figure.max }];
    });
    const chart = {
      name,
      title: kind.title,
      lines,
      ceiling: ceilings[name] ?? null,
      format: kind.format,
      binary: kind.binary === true,
    };
    return lines.length === 0 ? [] : [{ chart, tableOnly: kind.tableOnly === true }];
  });
  return {
    title,
    charts: all.filter((each) => !each.tableOnly).map((each) => each.chart),
    all: all.map((each) => each.chart),
  };
}

const filled = (groups: readonly Group[]): Group[] => groups.filter((each) => each.charts.length > 0);
