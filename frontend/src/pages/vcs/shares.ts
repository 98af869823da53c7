/** What a virtual cluster holds of its quota, lends and borrows, as parts of a bar and in words. */
import type { Organisation, Vc, VcQuota } from "../../api/types";
import { plural } from "../../format/amount";

/** The admission of pools that are shared in cells. */
export const CELLS = "hived";

export interface Parts {
  /** Held within the quota. */
  held: number;
  lent: number;
  free: number;
  /** Held beyond the quota. */
  borrowed: number;
  /** Held outside of the cells that the quota stands for. */
  opportunistic: number;
}

/** GPUs that fill the quota, or are borrowed beyond it. */
export const guaranteed = ({ used, opportunistic }: VcQuota): number => used - opportunistic;

export function partsOf(quota: VcQuota): Parts {
  const { gpus, lent, opportunistic } = quota;
  // What is held outside of the cells is on loan where it exceeds the quota together with the rest.
  const borrowed = Math.max(0, quota.borrowed - opportunistic);
  const held = Math.max(0, guaranteed(quota) - borrowed);
  return { held, lent, free: Math.max(0, gpus - held - lent), borrowed, opportunistic };
}

/** `6 of 8 used, 1 lent, 1 free`, and what is held beside. */
export function partsWords(quota: VcQuota): string {
  const { held, lent, free, borrowed, opportunistic } = partsOf(quota);
  const parts = [`${held} of ${quota.gpus} used`];
  if (lent > 0) parts.push(`${lent} lent`);
  if (free > 0) parts.push(`${free} free`);
  if (borrowed > 0) parts.push(`${borrowed} borrowed`);
  if (opportunistic > 0) parts.push(`${opportunistic} opportunistic`);
  return parts.join(", ");
}

/** `borrows at most 4, lends all that it does not use`; with cells there is no limit of lending. */
export function limitWords(quota: VcQuota, inCells = false): string {
  const { borrowing_limit: most, lending_limit: lends } = quota;
  const borrows =
    most === null ? "borrows without limit" : most === 0 ? "borrows nothing" : `borrows at most ${most}`;
  if (inCells) return borrows;
  const lend =
    lends === null
      ? "lends all that it does not use"
      : lends === 0
        ? "lends nothing"
        : `lends at most ${lends}`;
  return `${borrows}, ${lend}`;
}

export interface Branch {
  /** Null for tenants without an organisation. */
  organisation: string | null;
  below: Branch[];
  tenants: { name: string; vcs: Vc[] }[];
}

/** The virtual clusters below their tenants and organisations; those without an organisation come last. */
export function treeOf(vcs: readonly Vc[], organisations: readonly Organisation[]): Branch[] {
  const parents = new Map(organisations.map(({ name, parent }) => [name, parent]));
  const branches = new Map<string | null, Branch>();
  const roots: Branch[] = [];
  const branchOf = (name: string | null): Branch => {
    const known = branches.get(name);
    if (known !== undefined) return known;
    const branch: Branch = { organisation: name, below: [], tenants: [] };
    branches.set(name, branch);
    const parent = name === null ? null : (parents.get(name) ?? null);
    (parent === null ? roots : branchOf(parent).below).push(branch);
    return branch;
  };
  for (const vc of vcs) {
    const { tenants } = branchOf(vc.organisation);
    const tenant = tenants.find(({ name }) => name === vc.tenant);
    if (tenant === undefined) tenants.push({ name: vc.tenant, vcs: [vc] });
    else tenant.vcs.push(vc);
  }
  sort(roots);
  return roots;
}

function sort(branches: Branch[]): void {
  branches.sort((one, other) =>
    one.organisation === null
      ? 1
      : other.organisation === null
        ? -1
        : one.organisation.localeCompare(other.organisation),
  );
  for (const { below, tenants } of branches) {
    sort(below);
    tenants.sort((one, other) => one.name.localeCompare(other.name));
  }
}

/** What all of these hold and wait for, in a sentence. */
export function sumWords(vcs: readonly Vc[]): string {
  const sum = (of: (quota: VcQuota) => number) =>
    vcs.reduce((all, vc) => all + vc.quotas.reduce((some, quota) => some + of(quota), 0), 0);
  const gpus = sum((quota) => quota.gpus);
  const words = gpus === 0 ? [] : [`${sum(guaranteed)} of ${plural(gpus, "GPU")} used`];
  const borrowed = sum((quota) => partsOf(quota).borrowed);
  if (borrowed > 0) words.push(`${borrowed} borrowed`);
  const opportunistic = sum((quota) => quota.opportunistic);
  if (opportunistic > 0) words.push(`${opportunistic} opportunistic`);
  words.push(
    `${plural(
      vcs.reduce((all, { waiting }) => all + waiting, 0),
      "job",
    )} waiting`,
  );
  return words.join(" · ");
}
