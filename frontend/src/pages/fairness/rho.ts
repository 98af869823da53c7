/** Finish-time fairness against the own quota, by tenant and by week. */
import type { RhoFigures } from "../../api/types";

/** How many times as long it took as alone: `1.30×`. */
export const rhoWords = (rho: number): string => `${rho.toFixed(rho < 10 ? 2 : 0)}×`;

/** A bar that is full says this much slower or faster, or more. */
const FULL = 4;
/** Closer to 1 than this is neither paying nor gaining. */
const EVEN = 0.05;

export interface Figures {
  applications: number;
  median: number;
  mean: number;
  max: number;
}

export interface Named extends Figures {
  name: string;
}

/**
 * Where the bar from 1 to this ρ ends, as a share of its half: to the right what is slower than alone, to the left what
 * is faster; twice as slow is as far as twice as fast.
 */
export function barOf(rho: number): { side: "pays" | "gains"; share: number } {
  const share = Math.abs(Math.log(rho)) / Math.log(FULL);
  return { side: rho > 1 ? "pays" : "gains", share: Math.min(1, share) };
}

/** What is known of each row, under its name: of a row without a figure nothing. */
function known<Row extends RhoFigures>(rows: readonly Row[], nameOf: (row: Row) => string | null): Named[] {
  return rows.flatMap((row) => {
    const { applications, rho_quota_median: median, rho_quota_mean: mean, rho_quota_max: max } = row;
    if (median === null || mean === null || max === null) return [];
    return [{ name: nameOf(row) ?? "", applications, median, mean, max }];
  });
}

/** The tenants in the order of what they pay. */
export const byTenant = (rows: readonly (RhoFigures & { tenant: string | null })[]): Named[] =>
  known(rows, ({ tenant }) => tenant).sort((one, other) => other.median - one.median);

/** The newest week first. */
export const byWeek = (rows: readonly (RhoFigures & { week: string | null })[]): Named[] =>
  known(rows, ({ week }) => week).sort((one, other) => other.name.localeCompare(one.name));

/** Who pays for whom, in a sentence: by the median job, since a few long waits of short jobs make up a mean. */
export function paysWords(tenants: readonly Pick<Named, "name" | "median">[]): string {
  const pay = and(tenants.filter(({ median }) => median > 1 + EVEN));
  const gain = and(tenants.filter(({ median }) => median < 1 - EVEN));
  if (pay === "" && gain === "") return "Each tenant was as fast as alone with its quota.";
  // Below 1 may also be the order within a virtual cluster, so nothing is said of a gain that no tenant paid for.
  if (pay === "") return "No tenant was slower than alone with its quota.";
  if (gain === "") return `${pay} waited longer than alone, and no tenant gained.`;
  return `${pay} paid for ${gain}.`;
}

function and(tenants: readonly Pick<Named, "name">[]): string {
  const names = tenants.map(({ name }) => name);
  const last = names.at(-1) ?? "";
  return names.length < 2 ? last : `${names.slice(0, -1).join(", ")} and ${last}`;
}
