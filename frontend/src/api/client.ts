/** Calls that several pages make, or that belong to jobs, sweeps and nodes. */
import { problemFrom, Unreachable } from "./problem";
import { http, queryString, read } from "./rest";
import type {
  Attempt,
  CancelAnswer,
  DryRun,
  GroupState,
  Job,
  JobCount,
  JobEdit,
  JobEvent,
  JobFairness,
  JobMetrics,
  JobTraining,
  JobState,
  JobWithSpec,
  Me,
  Node,
  NodeAction,
  NodeDetail,
  NodeMetrics,
  OutputFilePage,
  Page,
  Pool,
  RetriedSweep,
  ServerSpec,
  Spec,
  Sweep,
  SweepInList,
  SweepMember,
  Upload,
  Vc,
  Why,
} from "./types";

/** Which jobs; each condition narrows the selection further. */
export interface JobFilter {
  state?: readonly JobState[] | undefined;
  vc?: string | undefined;
  tenant?: string | undefined;
  owner?: string | undefined;
  /** Of the form `key:value`; a job must have all of them. */
  tag?: readonly string[] | undefined;
  search?: string | undefined;
  mine?: boolean | undefined;
  ended_after?: string | undefined;
  /** Only the members of this group, in the order of their numbers. */
  group?: number | undefined;
}

/** A list may have one row for each group instead of its members. */
export type ListFilter = JobFilter & { members?: false | undefined };

/** The fields of a filter that say something, as the server reads them. */
function selection<T extends JobFilter>({ mine, state, tag, ...rest }: T) {
  return {
    ...rest,
    ...(mine === true && { mine }),
    ...(state !== undefined && { state: [...state] }),
    ...(tag !== undefined && { tag: [...tag] }),
  };
}

export function listJobs(
  filter: ListFilter,
  limit: number,
  cursor?: string,
  signal?: AbortSignal,
): Promise<Page<Job>> {
  const query = { ...selection(filter), limit, cursor };
  return read(http.GET("/api/v1/jobs", { params: { query }, signal: signal ?? null }));
}

export function countJobs(filter: JobFilter, signal?: AbortSignal): Promise<JobCount> {
  return read(
    http.GET("/api/v1/jobs:count", { params: { query: selection(filter) }, signal: signal ?? null }),
  );
}

/** Cancels those of the jobs that the caller may cancel, some of them if they are very many: see `remaining`. */
export function cancelJobs(which: JobFilter | { ids: readonly number[] }): Promise<CancelAnswer> {
  const body = "ids" in which ? { ids: [...which.ids] } : selection(which);
  return read(http.POST("/api/v1/jobs:cancel", { body }));
}

const ofJob = (id: number) => ({ params: { path: { job_id: String(id) } } });

export const getJob = (id: number): Promise<JobWithSpec> =>
  read(http.GET("/api/v1/jobs/{job_id}", ofJob(id)));
export const getWhy = (id: number): Promise<Why> => read(http.GET("/api/v1/jobs/{job_id}/why", ofJob(id)));

export const getJobFairness = (id: number): Promise<JobFairness> =>
  read(http.GET("/api/v1/jobs/{job_id}/fairness", ofJob(id)));

export function listAttempts(id: number): Promise<Page<Attempt>> {
  return read(http.GET("/api/v1/jobs/{job_id}/attempts", ofJob(id)));
}

export function listJobEvents(id: number, cursor?: string): Promise<Page<JobEvent>> {
  const query = cursor === undefined ? {} : { cursor };
  return read(http.GET("/api/v1/jobs/{job_id}/events", { params: { path: { job_id: String(id) }, query } }));
}

export function listFiles(id: number, cursor?: string): Promise<OutputFilePage> {
  const query = cursor === undefined ? {} : { cursor };
  return read(http.GET("/api/v1/jobs/{job_id}/files", { params: { path: { job_id: String(id) }, query } }));
}

export const fileUrl = (id: number, file: number): string => `/api/v1/jobs/${id}/files/${file}`;

/** What an attempt used, from `from` on or from its start. */
export function getJobTraining(id: number): Promise<JobTraining> {
  return read(http.GET("/api/v1/jobs/{job_id}/training", { params: { path: { job_id: String(id) } } }));
}

export function getJobMetrics(
  id: number,
  attempt: number | undefined,
  from: string | undefined,
): Promise<JobMetrics> {
  const query = { ...(attempt !== undefined && { attempt }), ...(from !== undefined && { from }) };
  return read(http.GET("/api/v1/jobs/{job_id}/metrics", { params: { path: { job_id: String(id) }, query } }));
}

export const cancelJob = (id: number): Promise<Job> =>
  read(http.POST("/api/v1/jobs/{job_id}:cancel", ofJob(id)));

export const requeueJob = (id: number): Promise<Job> =>
  read(http.POST("/api/v1/jobs/{job_id}:requeue", ofJob(id)));

export type WaitingAct = "hold" | "release" | "bump" | "unbump";

/** Does something to a waiting job. */
export const actOnWaiting = (id: number, act: WaitingAct): Promise<Job> =>
  read(http.POST(`/api/v1/jobs/{job_id}:${act}`, ofJob(id)));

export const editJob = (id: number, changes: JobEdit): Promise<JobWithSpec> =>
  read(http.PATCH("/api/v1/jobs/{job_id}", { ...ofJob(id), body: changes }));

/** Submits one job; the same `key` with the same spec gives the same job, so a retry is harmless. */
export function submitJob(spec: Spec, key: string): Promise<JobWithSpec> {
  const params = { header: { "Idempotency-Key": key } };
  return read(http.POST("/api/v1/jobs", { params, body: spec as unknown as ServerSpec }));
}

export function dryRun(spec: Spec, signal?: AbortSignal): Promise<DryRun> {
  return read(
    http.POST("/api/v1/jobs:dry-run", { body: spec as unknown as ServerSpec, signal: signal ?? null }),
  );
}

/** The sweeps that one may see, the newest first. */
export function listSweeps(
  filter: { state?: GroupState | undefined; mine?: boolean | undefined },
  cursor?: string,
): Promise<Page<SweepInList>> {
  const query = { ...(filter.state && { state: filter.state }), ...(filter.mine && { mine: true }), cursor };
  return read(http.GET("/api/v1/sweeps", { params: { query } }));
}

const ofSweep = (id: number) => ({ params: { path: { sweep_id: String(id) } } });

export const getSweep = (id: number): Promise<Sweep> =>
  read(http.GET("/api/v1/sweeps/{sweep_id}", ofSweep(id)));

export const listSweepMembers = (id: number): Promise<{ results: SweepMember[] }> =>
  read(http.GET("/api/v1/sweeps/{sweep_id}/members", ofSweep(id)));

export const cancelSweep = (id: number): Promise<Sweep> =>
  read(http.POST("/api/v1/sweeps/{sweep_id}:cancel", ofSweep(id)));

/** Runs the failed members again, inside the sweep; `retried` says how many. */
export const retrySweep = (id: number): Promise<RetriedSweep> =>
  read(http.POST("/api/v1/sweeps/{sweep_id}:retry", ofSweep(id)));

/** Submits one sweep with all its members; the same `key` with the same spec gives the same sweep. */
export function submitSweep(spec: Spec, key: string): Promise<Sweep> {
  const params = { header: { "Idempotency-Key": key } };
  return read(http.POST("/api/v1/sweeps", { params, body: spec }));
}

/** Submits a sweep with the spec of another but for the keys that are given; null takes a key away. */
export const cloneSweep = (id: number, spec: Spec): Promise<Sweep> =>
  read(http.POST("/api/v1/sweeps/{sweep_id}:clone", { ...ofSweep(id), body: { spec } }));

export const specSchema = (): Promise<Spec> => read(http.GET("/api/v1/spec/schema"));

export interface LogAddress {
  attempt?: number | undefined;
  rank?: number | undefined;
  /** Where a reader begins who does not want everything. */
  offset?: number | undefined;
  follow?: 1;
  download?: 1;
}

export const logUrl = (id: number, address: LogAddress): string =>
  `/api/v1/jobs/${id}/logs?${queryString(address)}`;

export const streamUrl = (topics: readonly string[]): string => `/api/v1/stream?topics=${topics.join(",")}`;

export const listVcs = (): Promise<Page<Vc>> => read(http.GET("/api/v1/vcs"));
export const listPools = (): Promise<Page<Pool>> => read(http.GET("/api/v1/pools"));
export const listNodes = (): Promise<Page<Node>> => read(http.GET("/api/v1/nodes"));

export const getNode = (name: string): Promise<NodeDetail> =>
  read(http.GET("/api/v1/nodes/{name}", { params: { path: { name } } }));

export const getNodeMetrics = (name: string, from: string): Promise<NodeMetrics> =>
  read(http.GET("/api/v1/nodes/{name}/metrics", { params: { path: { name }, query: { from } } }));

export function changeNode(name: string, action: NodeAction, reason?: string): Promise<NodeDetail> {
  const body = reason === undefined ? { action } : { action, reason };
  return read(http.PATCH("/api/v1/nodes/{name}", { params: { path: { name } }, body }));
}

export function declareNodeGone(name: string, reason: string): Promise<NodeDetail> {
  return read(
    http.POST("/api/v1/nodes/{name}:declare-gone", { params: { path: { name } }, body: { reason } }),
  );
}

export function checkNode(name: string): Promise<NodeDetail> {
  return read(http.POST("/api/v1/nodes/{name}:check", { params: { path: { name } } }));
}

export const getMe = (): Promise<Me> => read(http.GET("/api/v1/me"));

/** Starts a session; the GET before it makes the server hand out the CSRF cookie. */
export async function signIn(username: string, password: string): Promise<Me> {
  await read(http.GET("/api/v1/login"));
  return read(http.POST("/api/v1/login", { body: { username, password } }));
}

export async function signOut(): Promise<void> {
  await read(http.POST("/api/v1/logout"));
}

/** Whether the server already keeps this archive. */
export async function isUploaded(sha256: string): Promise<boolean> {
  const { response } = await http.HEAD("/api/v1/uploads/{sha256}", { params: { path: { sha256 } } });
  if (response.ok) return true;
  if (response.status === 404) return false;
  throw problemFrom(response.status, response.statusText, null);
}

/** Sends a code archive; XMLHttpRequest because fetch tells nothing of the progress of a request body. */
export function upload(
  file: Blob,
  sha256: string,
  csrf: string,
  onProgress: (share: number) => void,
  signal: AbortSignal,
): Promise<Upload> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const request = new XMLHttpRequest();
    signal.addEventListener("abort", () => request.abort(), { once: true });
    request.open("POST", "/api/v1/uploads");
    request.responseType = "json";
    request.setRequestHeader("Content-Type", "application/gzip");
    request.setRequestHeader("X-Content-SHA256", sha256);
    request.setRequestHeader("X-CSRFToken", csrf);
    request.upload.onprogress = (event) => {
      if (event.lengthComputable) onProgress(event.loaded / event.total);
    };
    request.onerror = () => reject(new Unreachable("upload"));
    request.onabort = () => reject(signal.reason as Error);
    request.onload = () => {
      if (request.status < 300) resolve(request.response as Upload);
      else reject(problemFrom(request.status, request.statusText, request.response));
    };
    request.send(file);
  });
}
