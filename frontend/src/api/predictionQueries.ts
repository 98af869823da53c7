/** What the page of predictions and the pages of jobs read of forecasts. */
import { keepPreviousData, queryOptions } from "@tanstack/react-query";

import * as api from "./predictions";
import { USAGE_STALE_MS } from "./queries";

/** Below the key of its job, so that news of the job renew it. */
export const whenQuery = (id: number) =>
  queryOptions({ queryKey: ["job", id, "when"], queryFn: () => api.getWhen(id), staleTime: 0 });

export const waitRecordQuery = (pool: string, weeks: number) =>
  queryOptions({
    queryKey: ["predictions", "waits", pool, weeks],
    queryFn: () => api.getWaitRecord(pool, weeks),
    staleTime: USAGE_STALE_MS,
    placeholderData: keepPreviousData,
  });

export const runTimeRecordQuery = (weeks: number) =>
  queryOptions({
    queryKey: ["predictions", "run-times", weeks],
    queryFn: () => api.getRunTimeRecord(weeks),
    staleTime: USAGE_STALE_MS,
    placeholderData: keepPreviousData,
  });
