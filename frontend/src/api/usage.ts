/** Calls about what was used, wasted, and shared fairly. */
import { http, queryString, read } from "./rest";
import type { Usage, UsageFairness } from "./types";

/** Whose GPU-hours, and of which time, such as `7d` until now. */
export interface UsageFilter {
  since: string;
  tenant?: string | undefined;
  user?: string | undefined;
}

/** GPU-hours told apart by what the comma-separated list says. */
export const getUsage = (by: string, filter: UsageFilter) =>
  // A table only for those who ask for one.
  read(http.GET("/api/v1/usage", { params: { query: { by, ...filter } } })) as Promise<Usage>;

export const usageCsvUrl = (by: string, filter: UsageFilter): string =>
  `/api/v1/usage?${queryString({ by, ...filter, format: "csv" })}`;

/** How much slower than alone the jobs and sweeps were that ended, by week or by tenant. */
export const getUsageFairness = (by: "week" | "tenant", filter: UsageFilter) =>
  // A table only for those who ask for one.
  read(
    http.GET("/api/v1/usage/fairness", { params: { query: { by, ...filter } } }),
  ) as Promise<UsageFairness>;

/** How long jobs waited for a start, by their delays, told apart by what the comma-separated list says. */
export const getDelayUsage = (by: string, filter: UsageFilter) =>
  read(http.GET("/api/v1/usage/delays", { params: { query: { by, ...filter } } }));

export const getWaste = (filter: UsageFilter) =>
  read(http.GET("/api/v1/usage/waste", { params: { query: { ...filter } } }));

export const listLeastEfficient = (filter: UsageFilter) =>
  read(http.GET("/api/v1/usage/least-efficient", { params: { query: { ...filter, limit: 8 } } }));
/** Verdicts on the policy of a pool and on another one, if it is named, and what sharing cost its tenants. */
export function getPoolFairness(name: string, policy?: string) {
  const query = policy === undefined ? {} : { policy };
  return read(http.GET("/api/v1/pools/{name}/fairness", { params: { path: { name }, query } }));
}
/** The names of the policies that a pool can decide by. */
export const listPolicies = async () =>
  (await read(http.GET("/api/v1/policies"))).policies.map(({ name }) => name);
export const getPoolDecisions = (name: string) =>
  read(http.GET("/api/v1/pools/{name}/decisions", { params: { path: { name } } }));
