/** Calls that several pages make, or that belong to jobs, sweeps and nodes. */
import { problemFrom, Unreachable } from "./problem";
import { http, queryString, read } from "./rest";
import type {
  ArrayMemberState,
  GroupState,
  JobEdit,
  JobState,
  NodeAction,
  ServerSpec,
  Spec,
  Upload,
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

export function listJobs(filter: ListFilter, limit: number, cursor?: string, signal?: AbortSignal) {
  const query = { ...selection(filter), limit, cursor };
  return read(http.GET("/api/v1/jobs", { params: { query }, signal: signal ?? null }));
}

export const countJobs = (filter: JobFilter, signal?: AbortSignal) =>
  read(http.GET("/api/v1/jobs:count", { params: { query: selection(filter) }, signal: signal ?? null }));

/** Cancels those of the jobs that the caller may cancel, some of them if they are very many: see `remaining`. */
export function cancelJobs(which: JobFilter | { ids: readonly number[] }) {
  const body = "ids" in which ? { ids: [...which.ids] } : selection(which);
  return read(http.POST("/api/v1/jobs:cancel", { body }));
}

const ofJob = (id: number) => ({ params: { path: { job_id: String(id) } } });

export const getJob = (id: number) => read(http.GET("/api/v1/jobs/{job_id}", ofJob(id)));
export const getWhy = (id: number) => read(http.GET("/api/v1/jobs/{job_id}/why", ofJob(id)));

export const getDependencies = (id: number) =>
  read(http.GET("/api/v1/jobs/{job_id}/dependencies", ofJob(id)));

export const getJobFairness = (id: number) => read(http.GET("/api/v1/jobs/{job_id}/fairness", ofJob(id)));

export const getJobDelays = (id: number) => read(http.GET("/api/v1/jobs/{job_id}/delays", ofJob(id)));

export const listAttempts = (id: number) => read(http.GET("/api/v1/jobs/{job_id}/attempts", ofJob(id)));

export function listJobEvents(id: number, cursor?: string) {
  const query = cursor === undefined ? {} : { cursor };
  return read(http.GET("/api/v1/jobs/{job_id}/events", { params: { path: { job_id: String(id) }, query } }));
}

export function listFiles(id: number, cursor?: string) {
  const query = cursor === undefined ? {} : { cursor };
  return read(http.GET("/api/v1/jobs/{job_id}/files", { params: { path: { job_id: String(id) }, query } }));
}

export const fileUrl = (id: number, file: number): string => `/api/v1/jobs/${id}/files/${file}`;

/** What an attempt used, from `from` on or from its start. */
export const getJobTraining = (id: number) => read(http.GET("/api/v1/jobs/{job_id}/training", ofJob(id)));

export function getJobMetrics(id: number, attempt: number | undefined, from: string | undefined) {
  const query = { ...(attempt !== undefined && { attempt }), ...(from !== undefined && { from }) };
  return read(http.GET("/api/v1/jobs/{job_id}/metrics", { params: { path: { job_id: String(id) }, query } }));
}

export const cancelJob = (id: number) => read(http.POST("/api/v1/jobs/{job_id}:cancel", ofJob(id)));

export const requeueJob = (id: number) => read(http.POST("/api/v1/jobs/{job_id}:requeue", ofJob(id)));

export type WaitingAct = "hold" | "release" | "bump" | "unbump";

/** Does something to a waiting job. */
export const actOnWaiting = (id: number, act: WaitingAct) =>
  read(http.POST(`/api/v1/jobs/{job_id}:${act}`, ofJob(id)));

export const editJob = (id: number, changes: JobEdit) =>
  read(http.PATCH("/api/v1/jobs/{job_id}", { ...ofJob(id), body: changes }));

/** Submits one job; the same `key` with the same spec gives the same job, so a retry is harmless. */
export function submitJob(spec: Spec, key: string) {
  const params = { header: { "Idempotency-Key": key } };
  return read(http.POST("/api/v1/jobs", { params, body: spec as unknown as ServerSpec }));
}

export const dryRun = (spec: Spec, signal?: AbortSignal) =>
  read(http.POST("/api/v1/jobs:dry-run", { body: spec as unknown as ServerSpec, signal: signal ?? null }));

/** The spec that a script with #SBATCH directives asks for; nothing is submitted. */
export const translateScript = (script: string) =>
  read(
    http.POST("/api/v1/sbatch:translate", {
      body: { script, name: "sbatch", options: [], arguments: [], environment: {}, folder: "" },
    }),
  );

/** The sweeps that one may see, the newest first. */
export function listSweeps(
  filter: { state?: GroupState | undefined; mine?: boolean | undefined },
  cursor?: string,
) {
  const query = { ...(filter.state && { state: filter.state }), ...(filter.mine && { mine: true }), cursor };
  return read(http.GET("/api/v1/sweeps", { params: { query } }));
}

const ofSweep = (id: number) => ({ params: { path: { sweep_id: String(id) } } });

export const getSweep = (id: number) => read(http.GET("/api/v1/sweeps/{sweep_id}", ofSweep(id)));

export const listSweepMembers = (id: number) =>
  read(http.GET("/api/v1/sweeps/{sweep_id}/members", ofSweep(id)));

export const cancelSweep = (id: number) => read(http.POST("/api/v1/sweeps/{sweep_id}:cancel", ofSweep(id)));

/** Runs the failed members again, inside the sweep; `retried` says how many. */
export const retrySweep = (id: number) => read(http.POST("/api/v1/sweeps/{sweep_id}:retry", ofSweep(id)));

/** Submits one sweep with all its members; the same `key` with the same spec gives the same sweep. */
export function submitSweep(spec: Spec, key: string) {
  const params = { header: { "Idempotency-Key": key } };
  return read(http.POST("/api/v1/sweeps", { params, body: spec }));
}

/** Submits a sweep with the spec of another but for the keys that are given; null takes a key away. */
export const cloneSweep = (id: number, spec: Spec) =>
  read(http.POST("/api/v1/sweeps/{sweep_id}:clone", { ...ofSweep(id), body: { spec } }));

const ofArray = (id: number) => ({ params: { path: { array_id: String(id) } } });

export const getArray = (id: number) => read(http.GET("/api/v1/arrays/{array_id}", ofArray(id)));

/** Up to 1,000 members by their index: all, or those in one state. */
export const listArrayMembers = (id: number, state?: ArrayMemberState, cursor?: string) =>
  read(
    http.GET("/api/v1/arrays/{array_id}/members", {
      params: { path: { array_id: String(id) }, query: { ...(state && { state }), cursor } },
    }),
  );

export const cancelArray = (id: number) =>
  read(http.POST("/api/v1/arrays/{array_id}:cancel", { ...ofArray(id), body: {} }));

/** Runs the failed members again, inside the array; `retried` says how many. */
export const retryArray = (id: number) =>
  read(http.POST("/api/v1/arrays/{array_id}:retry", { ...ofArray(id), body: {} }));

/** Submits one array with all its members; the same `key` with the same spec gives the same array. */
export function submitArray(spec: Spec, key: string) {
  const params = { header: { "Idempotency-Key": key } };
  return read(http.POST("/api/v1/arrays", { params, body: spec }));
}

/** Submits an array with the spec of another but for the keys that are given; null takes a key away. */
export const cloneArray = (id: number, spec: Spec) =>
  read(http.POST("/api/v1/arrays/{array_id}:clone", { ...ofArray(id), body: { spec } }));

export const specSchema = () => read(http.GET("/api/v1/spec/schema"));

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

export const listVcs = () => read(http.GET("/api/v1/vcs"));
export const listPools = () => read(http.GET("/api/v1/pools"));
export const listNodes = () => read(http.GET("/api/v1/nodes"));

const ofNode = (name: string) => ({ params: { path: { name } } });

export const getNode = (name: string) => read(http.GET("/api/v1/nodes/{name}", ofNode(name)));

export const getNodeMetrics = (name: string, from: string) =>
  read(http.GET("/api/v1/nodes/{name}/metrics", { params: { path: { name }, query: { from } } }));

export function changeNode(name: string, action: NodeAction, reason?: string) {
  const body = reason === undefined ? { action } : { action, reason };
  return read(http.PATCH("/api/v1/nodes/{name}", { ...ofNode(name), body }));
}

export const declareNodeGone = (name: string, reason: string) =>
  read(http.POST("/api/v1/nodes/{name}:declare-gone", { ...ofNode(name), body: { reason } }));

export const checkNode = (name: string) => read(http.POST("/api/v1/nodes/{name}:check", ofNode(name)));

export const getMe = () => read(http.GET("/api/v1/me"));

/** Starts a session; the GET before it makes the server hand out the CSRF cookie. */
export async function signIn(username: string, password: string) {
  await read(http.GET("/api/v1/login"));
  return read(http.POST("/api/v1/login", { body: { username, password } }));
}

export const signOut = () => read(http.POST("/api/v1/logout"));

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
