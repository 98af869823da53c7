/** What the pages of virtual clusters and tenants read. */
import { keepPreviousData, queryOptions } from "@tanstack/react-query";

import { poolsQuery, USAGE_STALE_MS, vcsQuery } from "./queries";
import * as api from "./tree";

/** Beside the list, so that news of jobs renew both. */
export const vcQuery = (id: number) =>
  queryOptions({ queryKey: [...vcsQuery.queryKey, id], queryFn: () => api.getVc(id) });
export const vcCellsQuery = (id: number) =>
  queryOptions({ queryKey: [...vcsQuery.queryKey, id, "cells"], queryFn: () => api.getVcCells(id) });
export const poolCellsQuery = (pool: string) =>
  queryOptions({
    queryKey: [...poolsQuery.queryKey, pool, "cells"],
    queryFn: () => api.getPoolCells(pool),
  });
export const tenantsQuery = queryOptions({ queryKey: ["tenants"], queryFn: api.listTenants });
export const organisationsQuery = queryOptions({
  queryKey: ["organisations"],
  queryFn: api.listOrganisations,
});

/** Not beside the virtual clusters: mean waits change slowly. */
export const delaysQuery = (vc: number, since: string, by: "day" | "week") =>
  queryOptions({
    queryKey: ["delays", vc, since, by],
    queryFn: () => api.getDelays(vc, since, by),
    staleTime: USAGE_STALE_MS,
    placeholderData: keepPreviousData,
  });
