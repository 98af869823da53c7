/** What the pages of insights and fairness read. */
import { keepPreviousData, queryOptions } from "@tanstack/react-query";

import { poolsQuery, USAGE_STALE_MS } from "./queries";
import * as api from "./usage";

/** Judging snapshots is work for the server, and history changes slowly. */
export const poolFairnessQuery = (pool: string, policy: string | undefined) =>
  queryOptions({
    queryKey: ["pool-fairness", pool, policy],
    queryFn: () => api.getPoolFairness(pool, policy),
    staleTime: USAGE_STALE_MS,
    placeholderData: keepPreviousData,
  });
export const policiesQuery = queryOptions({
  queryKey: ["policies"],
  queryFn: api.listPolicies,
  staleTime: Infinity,
});
/** Beside the pools, so that news of jobs renew both. */
export const decisionsQuery = (pool: string) =>
  queryOptions({
    queryKey: [...poolsQuery.queryKey, pool, "decisions"],
    queryFn: () => api.getPoolDecisions(pool),
  });

export const usageQuery = (by: string, filter: api.UsageFilter) =>
  queryOptions({
    queryKey: ["usage", "by", by, filter],
    queryFn: () => api.getUsage(by, filter),
    staleTime: USAGE_STALE_MS,
  });

export const usageFairnessQuery = (by: "week" | "tenant", filter: api.UsageFilter) =>
  queryOptions({
    queryKey: ["usage", "fairness", by, filter],
    queryFn: () => api.getUsageFairness(by, filter),
    staleTime: USAGE_STALE_MS,
  });

export const delayUsageQuery = (by: string, filter: api.UsageFilter) =>
  queryOptions({
    queryKey: ["usage", "delays", by, filter],
    queryFn: () => api.getDelayUsage(by, filter),
    staleTime: USAGE_STALE_MS,
  });

export const wasteQuery = (filter: api.UsageFilter) =>
  queryOptions({
    queryKey: ["usage", "waste", filter],
    queryFn: () => api.getWaste(filter),
    staleTime: USAGE_STALE_MS,
  });

export const leastEfficientQuery = (filter: api.UsageFilter) =>
  queryOptions({
    queryKey: ["usage", "least-efficient", filter],
    queryFn: () => api.listLeastEfficient(filter),
    staleTime: USAGE_STALE_MS,
  });
