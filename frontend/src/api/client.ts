/** Every call that the pages make to the server, one function each. */
import createClient from "openapi-fetch";

import type { CellsPreview, CellsWanted, PoolCells, VcCells } from "./cells";
import { send } from "./http";
import { problemFrom, Unreachable } from "./problem";
import type { paths } from "./schema";
import type {
  Attempt,
  CancelAnswer,
  Delays,
  DryRun,
  Job,
  JobCount,
  JobEdit,
  JobEvent,
  JobFairness,
  JobMetrics,
  JobTraining,
  JobState,
  JobWithSpec,
  LeastEfficientList,
  Me,
  NewToken,
  NewWebhook,
  Node,
  NodeAction,
  NodeDetail,
  NodeMetrics,
  NotificationChanges,
  Notifications,
  Organisation,
  OutputFilePage,
  Page,
  Pool,
  PoolDecisions,
  PoolFairness,
  Queue,
  ServerSpec,
  Session,
  Spec,
  Sweep,
  SweepInList,
  SweepMember,
  SweepState,
  Tenant,
  TenantChange,
  Token,
  TokenRequest,
  Upload,
  Usage,
  UsageFairness,
  Vc,
  VcChange,
  VcDetail,
  Waste,
  Webhook,
  Why,
} from "./types";

const http = createClient<paths>({ baseUrl: window.location.origin, fetch: send });

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** What was answered; a refusal is thrown as the problem that it describes. */
async function read<T>(answer: Promise<Answer<T>>): Promise<T> {
  const { data, error, response } = await answer;
  if (!response.ok) throw problemFrom(response.status, response.statusText, error);
  return data as T;
}

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
}

/** The fields of a filter that say something, as the server reads them. */
function selection({ mine, state, tag, ...rest }: JobFilter) {
  return {
    ...rest,
    ...(mine === true && { mine }),
    ...(state !== undefined && { state: [...state] }),
    ...(tag !== undefined && { tag: [...tag] }),
  };
}

export function listJobs(
  filter: JobFilter,
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

/** A page of what waits in a virtual cluster. */
export function getQueue(vc: number, mine: boolean, cursor?: string): Promise<Queue> {
  const query = { ...(mine && { mine }), ...(cursor !== undefined && { cursor }) };
  return read(http.GET("/api/v1/vcs/{vc_id}/queue", { params: { path: { vc_id: String(vc) }, query } }));
}

/** Lets waiting jobs of one owner share out the places that they hold, in this order. */
export async function reorderQueue(vc: number, jobs: readonly number[]): Promise<void> {
  const params = { path: { vc_id: String(vc) } };
  await read(http.POST("/api/v1/vcs/{vc_id}/queue:reorder", { params, body: { jobs: [...jobs] } }));
}

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

/** A program that the platform offers for download, below `/downloads/`. */
export interface Download {
  name: string;
  sha256: string;
}

/** The programs for download, as SHA256SUMS lists them: on each line a digest, two spaces and a file name. */
export async function listDownloads(): Promise<Download[]> {
  const response = await send(new Request(new URL("/downloads/SHA256SUMS", window.location.origin)));
  if (!response.ok) throw problemFrom(response.status, response.statusText, undefined);
  const lines = (await response.text()).trim().split("\n");
  return lines.map((line) => ({ sha256: line.slice(0, 64), name: line.slice(66) }));
}

/** The sweeps that one may see, the newest first. */
export function listSweeps(
  filter: { state?: SweepState | undefined; mine?: boolean | undefined },
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

function queryString(values: object): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined) params.set(name, String(value));
  }
  return params.toString();
}

export const logUrl = (id: number, address: LogAddress): string =>
  `/api/v1/jobs/${id}/logs?${queryString(address)}`;

export const streamUrl = (topics: readonly string[]): string => `/api/v1/stream?topics=${topics.join(",")}`;

/** Whose GPU-hours, and of which time, such as `7d` until now. */
export interface UsageFilter {
  since: string;
  tenant?: string | undefined;
  user?: string | undefined;
}

/** GPU-hours told apart by what the comma-separated list says. */
export async function getUsage(by: string, filter: UsageFilter): Promise<Usage> {
  // It may also be a table, for those who ask for one.
  return (await read<Usage | string>(
    http.GET("/api/v1/usage", { params: { query: { by, ...filter } } }),
  )) as Usage;
}

export const usageCsvUrl = (by: string, filter: UsageFilter): string =>
  `/api/v1/usage?${queryString({ by, ...filter, format: "csv" })}`;

/** How much slower than alone the jobs and sweeps were that ended, by week and tenant. */
export async function getUsageFairness(filter: UsageFilter): Promise<UsageFairness> {
  // It may also be a table, for those who ask for one.
  return (await read<UsageFairness | string>(
    http.GET("/api/v1/usage/fairness", { params: { query: { ...filter } } }),
  )) as UsageFairness;
}

export const getWaste = (filter: UsageFilter): Promise<Waste> =>
  read(http.GET("/api/v1/usage/waste", { params: { query: { ...filter } } }));

export const listLeastEfficient = (filter: UsageFilter): Promise<LeastEfficientList> =>
  read(http.GET("/api/v1/usage/least-efficient", { params: { query: { ...filter, limit: 8 } } }));

/** The mean waits of a virtual cluster by day or week. */
export function getDelays(vc: number, since: string, by: "day" | "week"): Promise<Delays> {
  const params = { path: { vc_id: String(vc) }, query: { since, by } };
  return read(http.GET("/api/v1/vcs/{vc_id}/delays", { params }));
}

export const listVcs = (): Promise<Page<Vc>> => read(http.GET("/api/v1/vcs"));
export const getVc = (id: number): Promise<VcDetail> =>
  read(http.GET("/api/v1/vcs/{vc_id}", { params: { path: { vc_id: String(id) } } }));
/** With `dryRun` all is checked and nothing is stored. */
export function changeVc(id: number, change: VcChange, dryRun = false): Promise<VcDetail> {
  const params = { path: { vc_id: String(id) }, query: { dry_run: dryRun } };
  return read(http.PATCH("/api/v1/vcs/{vc_id}", { params, body: change }));
}
const ofVc = (id: number) => ({ params: { path: { vc_id: String(id) } } });

export const getVcCells = async (id: number): Promise<VcCells> =>
  (await read(http.GET("/api/v1/vcs/{vc_id}/cells", ofVc(id)))) as VcCells;
export const getPoolCells = async (name: string): Promise<PoolCells> =>
  (await read(http.GET("/api/v1/pools/{name}/cells", { params: { path: { name } } }))) as PoolCells;
export const putVcCells = async (id: number, version: number, wanted: CellsWanted): Promise<VcCells> =>
  (await read(
    http.PUT("/api/v1/vcs/{vc_id}/cells", { ...ofVc(id), body: { version, ...wanted } }),
  )) as VcCells;
export const previewVcCells = (id: number, wanted: CellsWanted): Promise<CellsPreview> =>
  read(http.POST("/api/v1/vcs/{vc_id}/cells:preview", { ...ofVc(id), body: wanted }));

export const listTenants = (): Promise<Page<Tenant>> => read(http.GET("/api/v1/tenants"));
export function changeTenant(id: number, change: TenantChange, dryRun = false): Promise<Tenant> {
  const params = { path: { tenant_id: String(id) }, query: { dry_run: dryRun } };
  return read(http.PATCH("/api/v1/tenants/{tenant_id}", { params, body: change }));
}
export const listOrganisations = (): Promise<Page<Organisation>> => read(http.GET("/api/v1/organisations"));
export const listPools = (): Promise<Page<Pool>> => read(http.GET("/api/v1/pools"));
/** Verdicts on the policy of a pool and on another one, if it is named, and what sharing cost its tenants. */
export function getPoolFairness(name: string, policy?: string): Promise<PoolFairness> {
  const query = policy === undefined ? {} : { policy };
  return read(http.GET("/api/v1/pools/{name}/fairness", { params: { path: { name }, query } }));
}
/** The names of the policies that a pool can decide by. */
export const listPolicies = async (): Promise<string[]> =>
  (await read(http.GET("/api/v1/policies"))).policies.map(({ name }) => name);
export const getPoolDecisions = (name: string): Promise<PoolDecisions> =>
  read(http.GET("/api/v1/pools/{name}/decisions", { params: { path: { name } } }));
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

export async function changePassword(current: string, wanted: string): Promise<void> {
  await read(http.POST("/api/v1/password", { body: { current, new: wanted } }));
}

export const listTokens = (): Promise<Page<Token>> => read(http.GET("/api/v1/tokens"));

export function createToken(token: TokenRequest): Promise<NewToken> {
  return read(http.POST("/api/v1/tokens", { body: token }));
}

export function setTokenSurvival(id: number, survives: boolean): Promise<Token> {
  const params = { path: { token_id: String(id) } };
  return read(
    http.PATCH("/api/v1/tokens/{token_id}", { params, body: { survives_password_change: survives } }),
  );
}

export async function revokeToken(id: number): Promise<void> {
  await read(http.DELETE("/api/v1/tokens/{token_id}", { params: { path: { token_id: String(id) } } }));
}

export const listSessions = (): Promise<Page<Session>> => read(http.GET("/api/v1/sessions"));

export async function endSession(id: number): Promise<void> {
  await read(http.DELETE("/api/v1/sessions/{session_id}", { params: { path: { session_id: String(id) } } }));
}

/** Ends all sessions but that of this browser. */
export async function endOtherSessions(): Promise<void> {
  await read(http.DELETE("/api/v1/sessions"));
}

export const listWebhooks = (): Promise<Page<Webhook>> => read(http.GET("/api/v1/webhooks"));

export function createWebhook(url: string): Promise<NewWebhook> {
  return read(http.POST("/api/v1/webhooks", { body: { url } }));
}

const webhook = (id: number) => ({ params: { path: { webhook_id: String(id) } } });

/** Has a ping sent, which arrives a moment later. */
export function testWebhook(id: number): Promise<Webhook> {
  return read(http.POST("/api/v1/webhooks/{webhook_id}:test", webhook(id)));
}

export async function removeWebhook(id: number): Promise<void> {
  await read(http.DELETE("/api/v1/webhooks/{webhook_id}", webhook(id)));
}

export const getNotifications = (): Promise<Notifications> => read(http.GET("/api/v1/me/notifications"));

export function changeNotifications(changes: NotificationChanges): Promise<Notifications> {
  return read(http.PATCH("/api/v1/me/notifications", { body: changes }));
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
