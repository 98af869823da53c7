/** What the pages read, with the keys under which it is kept. */
import {
  infiniteQueryOptions,
  keepPreviousData,
  QueryClient,
  queryOptions,
  type QueryCache,
} from "@tanstack/react-query";

import * as api from "./client";
import { streamStatus, useObservable } from "./connectivity";
import { isTransient, Problem } from "./problem";
import type { ArrayMemberState } from "./types";

/** Network trouble is retried a few times; a plain no is not. */
export function makeQueryClient(queryCache?: QueryCache): QueryClient {
  return new QueryClient({
    ...(queryCache && { queryCache }),
    defaultOptions: {
      queries: {
        retry: (failures, error) => isTransient(error) && failures < 2,
        retryDelay: (failures) => Math.min(4000, 400 * 2 ** failures),
        staleTime: 2000,
        refetchOnWindowFocus: true,
      },
    },
  });
}

export const isSignedOut = (error: unknown): boolean => error instanceof Problem && error.status === 401;
export const isMissing = (error: unknown): boolean => error instanceof Problem && error.status === 404;

const POLL_MS = 5000;
/** As often as there is something new of what is measured. */
export const METRICS_POLL_MS = 10_000;
/** Even a live stream is not trusted for ever: a page that stays open must not stay wrong. */
const LIVE_POLL_MS = 30_000;

/** How often pages ask again by themselves: often while the stream of changes is down. */
export function useFallbackInterval(): number {
  return useObservable(streamStatus) === "live" ? LIVE_POLL_MS : POLL_MS;
}

export const meQuery = queryOptions({ queryKey: ["me"], queryFn: api.getMe, staleTime: 60_000 });

export const JOBS_PAGE = 100;

export const jobsQuery = (filter: api.ListFilter) =>
  infiniteQueryOptions({
    queryKey: ["jobs", "list", filter],
    queryFn: ({ pageParam, signal }) => api.listJobs(filter, JOBS_PAGE, pageParam, signal),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
  });

export const someJobsQuery = (filter: api.ListFilter, limit: number) =>
  queryOptions({
    queryKey: ["jobs", "some", filter, limit],
    queryFn: ({ signal }) => api.listJobs(filter, limit, undefined, signal),
  });

export const jobCountQuery = (filter: api.JobFilter) =>
  queryOptions({
    queryKey: ["jobs", "count", filter],
    queryFn: ({ signal }) => api.countJobs(filter, signal),
  });

export const jobQuery = (id: number) =>
  queryOptions({ queryKey: ["job", id, "self"], queryFn: () => api.getJob(id) });

/** All that is known of sweeps is below one key: what changes a job may change the sweep that it is a member of. */
export const sweepsQuery = (filter: Parameters<typeof api.listSweeps>[0]) =>
  infiniteQueryOptions({
    queryKey: ["sweeps", "list", filter],
    queryFn: ({ pageParam }) => api.listSweeps(filter, pageParam),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
  });

export const sweepQuery = (id: number) =>
  queryOptions({ queryKey: ["sweeps", id, "self"], queryFn: () => api.getSweep(id) });

export const sweepMembersQuery = (id: number) =>
  queryOptions({ queryKey: ["sweeps", id, "members"], queryFn: () => api.listSweepMembers(id) });

/** As with sweeps, all that is known of arrays is below one key. */
export const arrayQuery = (id: number) =>
  queryOptions({ queryKey: ["arrays", id, "self"], queryFn: () => api.getArray(id) });

export const arrayMembersQuery = (id: number, state?: ArrayMemberState) =>
  infiniteQueryOptions({
    queryKey: ["arrays", id, "members", state],
    queryFn: ({ pageParam }) => api.listArrayMembers(id, state, pageParam),
    staleTime: 1000,
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
  });

export const whyQuery = (id: number) =>
  queryOptions({ queryKey: ["job", id, "why"], queryFn: () => api.getWhy(id), staleTime: 0 });

export const dependenciesQuery = (id: number) =>
  queryOptions({ queryKey: ["job", id, "dependencies"], queryFn: () => api.getDependencies(id) });

export const jobFairnessQuery = (id: number) =>
  queryOptions({ queryKey: ["job", id, "fairness"], queryFn: () => api.getJobFairness(id) });

export const jobDelaysQuery = (id: number) =>
  queryOptions({ queryKey: ["job", id, "delays"], queryFn: () => api.getJobDelays(id) });

export const attemptsQuery = (id: number) =>
  queryOptions({ queryKey: ["job", id, "attempts"], queryFn: () => api.listAttempts(id) });

const secondsAgo = (seconds: number): string => new Date(Date.now() - seconds * 1000).toISOString();

/** What an attempt used in its last `lastS` seconds, or, with 0, in all of its time. */
export const jobMetricsQuery = (id: number, attempt: number, lastS: number) =>
  queryOptions({
    queryKey: ["job", id, "metrics", attempt, lastS],
    queryFn: () => api.getJobMetrics(id, attempt, lastS === 0 ? undefined : secondsAgo(lastS)),
    placeholderData: keepPreviousData,
  });

/** What a job's training says; asked for again as its metrics are. */
export const jobTrainingQuery = (id: number) =>
  queryOptions({ queryKey: ["job", id, "training"], queryFn: () => api.getJobTraining(id) });

export const jobEventsQuery = (id: number) =>
  infiniteQueryOptions({
    queryKey: ["job", id, "events"],
    queryFn: ({ pageParam }) => api.listJobEvents(id, pageParam),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
  });

export const filesQuery = (id: number) =>
  infiniteQueryOptions({
    queryKey: ["job", id, "files"],
    queryFn: ({ pageParam }) => api.listFiles(id, pageParam),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
  });

/** What was used changes slowly, and summing it up is work for the database. */
export const USAGE_STALE_MS = 60_000;

export const vcsQuery = queryOptions({ queryKey: ["vcs"], queryFn: api.listVcs });
export const poolsQuery = queryOptions({ queryKey: ["pools"], queryFn: api.listPools });
export const nodesQuery = queryOptions({ queryKey: ["nodes"], queryFn: api.listNodes });
/** Beside the list, so that news of nodes renews both. */
export const nodeQuery = (name: string) =>
  queryOptions({ queryKey: [...nodesQuery.queryKey, name], queryFn: () => api.getNode(name) });

/** Not beside the nodes: news of them say nothing of what was measured. */
export const nodeMetricsQuery = (name: string, lastS: number) =>
  queryOptions({
    queryKey: ["node-metrics", name, lastS],
    queryFn: () => api.getNodeMetrics(name, secondsAgo(lastS)),
    placeholderData: keepPreviousData,
  });

export const specSchemaQuery = queryOptions({
  queryKey: ["spec-schema"],
  queryFn: api.specSchema,
  staleTime: Infinity,
});
