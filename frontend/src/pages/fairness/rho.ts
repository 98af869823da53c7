/** Finish-time fairness against the own quota, by tenant and by week. */
import type { PoolNow, PoolWeek } from "../../api/types";

/** How many times as long it took as alone: `1.30×`. */
export const rhoWords = (rho: number): string => `${rho.toFixed(rho < 10 ? 2 : 0)}×`;

/** A bar that is full says this much slower or faster, or more. */
const FULL = 4;
/** Closer to 1 than this is neither paying nor gaining. */
const EVEN = 0.005;

export interface Figures {
  applications: number;
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

/** The tenants over all the weeks, in the order of what they paid. */
export const byTenant = (weeks: readonly PoolWeek[]): Named[] =>
  grouped(weeks, ({ tenant }) => tenant).sort((one, other) => other.mean - one.mean);

/** The weeks over all tenants, the newest first. */
export const byWeek = (weeks: readonly PoolWeek[]): Named[] =>
  grouped(weeks, ({ week }) => week).sort((one, other) => other.name.localeCompare(one.name));

/** The live applications of each tenant as they stand, in the order of what they pay. */
export const standing = (now: readonly PoolNow[]): Named[] =>
  grouped(now, ({ tenant }) => tenant).sort((one, other) => other.mean - one.mean);

function grouped<Row extends PoolNow>(weeks: readonly Row[], nameOf: (row: Row) => string): Named[] {
  const found = new Map<string, Figures & { sum: number }>();
  for (const row of weeks) {
    const { applications, rho_quota_mean: mean, rho_quota_max: max } = row;
    if (mean === null || max === null) continue;
    const old = found.get(nameOf(row)) ?? { applications: 0, sum: 0, mean: 0, max: 0 };
    const sum = old.sum + applications * mean;
    const all = old.applications + applications;
    found.set(nameOf(row), { applications: all, sum, mean: sum / all, max: Math.max(old.max, max) });
  }
  return [...found].map(([name, { applications, mean, max }]) => ({ name, applications, mean, max }));
}

/** Who pays for whom, in a sentence. */
export function paysWords(tenants: readonly Pick<Named, "name" | "mean">[]): string {
  const pay = and(tenants.filter(({ mean }) => mean > 1 + EVEN));
  const gain = and(tenants.filter(({ mean }) => mean < 1 - EVEN));
  if (pay === "" && gain === "") return "Each tenant was as fast as alone with its quota.";
  if (pay === "") return `No tenant paid: ${gain} gained by sharing.`;
  if (gain === "") return `${pay} waited longer than alone, and no tenant gained.`;
  return `${pay} paid for ${gain}.`;
}

function and(tenants: readonly Pick<Named, "name">[]): string {
  const names = tenants.map(({ name }) => name);
  const last = names.at(-1) ?? "";
  return names.length < 2 ? last : `${names.slice(0, -1).join(", ")} and ${last}`;
}
