/** Every call that the pages make to the server, one function each. */
import { API, problemOf, randomId, send } from "./http";
import { Problem, Unreachable } from "./problem";
import type {
  Attempt,
  DryRun,
  Job,
  JobEvent,
  JobWithSpec,
  Me,
  NewToken,
  Node,
  NodeAction,
  Page,
  Pool,
  Token,
  Upload,
  Vc,
  Why,
} from "./types";

type Query = Record<string, string | number | undefined>;

interface Options {
  method?: string;
  query?: Query;
  json?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

function url(path: string, query: Query = {}): string {
  const params = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value !== undefined && value !== "") params.set(key, String(value));
  }
  const text = params.toString();
  return text === "" ? `${API}${path}` : `${API}${path}?${text}`;
}

async function call(path: string, options: Options = {}): Promise<Response> {
  const headers = new Headers({ Accept: "application/json", ...options.headers });
  const init: RequestInit = { method: options.method ?? "GET", headers };
  if (options.signal !== undefined) init.signal = options.signal;
  if (options.json !== undefined) {
    headers.set("Content-Type", "application/json");
    init.body = JSON.stringify(options.json);
  }
  const response = await send(new Request(new URL(url(path, options.query), window.location.origin), init));
  if (response.status >= 400) throw await problemOf(response);
  return response;
}

async function read<T>(path: string, options: Options = {}): Promise<T> {
  const response = await call(path, options);
  return (await response.json()) as T;
}

export interface JobFilter {
  state?: string | undefined;
  vc?: string | undefined;
  tenant?: string | undefined;
  owner?: string | undefined;
  search?: string | undefined;
  mine?: boolean | undefined;
  limit?: number | undefined;
}

export function listJobs(filter: JobFilter, cursor?: string, signal?: AbortSignal): Promise<Page<Job>> {
  const { mine, ...rest } = filter;
  return read("/jobs", { query: { ...rest, mine: mine ? 1 : undefined, cursor }, ...(signal && { signal }) });
}

export const getJob = (id: number): Promise<JobWithSpec> => read(`/jobs/${id}`);
export const getWhy = (id: number): Promise<Why> => read(`/jobs/${id}/why`);
export const listAttempts = (id: number): Promise<Page<Attempt>> => read(`/jobs/${id}/attempts`);

export function listJobEvents(id: number, cursor?: string): Promise<Page<JobEvent>> {
  return read(`/jobs/${id}/events`, { query: { cursor } });
}

export const cancelJob = (id: number): Promise<Job> => read(`/jobs/${id}:cancel`, { method: "POST" });
export const requeueJob = (id: number): Promise<Job> => read(`/jobs/${id}:requeue`, { method: "POST" });

/** Submits one job; the same `key` with the same spec gives the same job, so a retry is harmless. */
export function submitJob(spec: unknown, key: string): Promise<JobWithSpec> {
  return read("/jobs", { method: "POST", json: spec, headers: { "Idempotency-Key": key } });
}

export function dryRun(spec: unknown, signal?: AbortSignal): Promise<DryRun> {
  return read("/jobs:dry-run", { method: "POST", json: spec, ...(signal && { signal }) });
}

export const specSchema = (): Promise<Record<string, unknown>> => read("/spec/schema");

export async function logSize(id: number, attempt?: number, rank?: number): Promise<number | null> {
  const response = await call(`/jobs/${id}/logs`, {
    query: { attempt, rank, offset: 0, limit: 1 },
    headers: { Accept: "text/plain" },
  });
  const size = response.headers.get("X-Muster-Size");
  return size === null ? null : Number(size);
}

export function logUrl(
  id: number,
  options: { attempt?: number | undefined; rank?: number | undefined; follow?: boolean; download?: boolean },
): string {
  return url(`/jobs/${id}/logs`, {
    attempt: options.attempt,
    rank: options.rank,
    follow: options.follow ? 1 : undefined,
    download: options.download ? 1 : undefined,
  });
}

export const streamUrl = (topics: readonly string[]): string => url("/stream", { topics: topics.join(",") });

export const listVcs = (): Promise<Page<Vc>> => read("/vcs");
export const listPools = (): Promise<Page<Pool>> => read("/pools");
export const listNodes = (): Promise<Page<Node>> => read("/nodes");

export function changeNode(name: string, action: NodeAction, reason: string): Promise<Node> {
  return read(`/nodes/${encodeURIComponent(name)}`, { method: "PATCH", json: { action, reason } });
}

export const getMe = (): Promise<Me> => read("/me");

/** Starts a session; the GET before it makes the server hand out the CSRF cookie. */
export async function signIn(username: string, password: string): Promise<Me> {
  await call("/login");
  return read("/login", { method: "POST", json: { username, password } });
}

export async function signOut(): Promise<void> {
  await call("/logout", { method: "POST" });
}

export const listTokens = (): Promise<Page<Token>> => read("/tokens");

export function createToken(name: string, expiresIn: string | null): Promise<NewToken> {
  return read("/tokens", { method: "POST", json: { name, expires_in: expiresIn } });
}

export async function revokeToken(id: number): Promise<void> {
  await call(`/tokens/${id}`, { method: "DELETE" });
}

/** Whether the server already keeps this archive. */
export async function isUploaded(sha256: string): Promise<boolean> {
  const request = new Request(new URL(url(`/uploads/${sha256}`), window.location.origin), { method: "HEAD" });
  const response = await send(request);
  if (response.ok) return true;
  if (response.status === 404) return false;
  throw await problemOf(response);
}

/** Sends a code archive; XMLHttpRequest because fetch tells nothing of the progress of a request body. */
export function upload(
  file: Blob,
  sha256: string,
  csrf: string,
  onProgress: (share: number) => void,
): Promise<Upload> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", url("/uploads"));
    request.responseType = "json";
    request.setRequestHeader("Content-Type", "application/gzip");
    request.setRequestHeader("X-Content-SHA256", sha256);
    request.setRequestHeader("X-CSRFToken", csrf);
    request.upload.onprogress = (event) => {
      if (event.lengthComputable) onProgress(event.loaded / event.total);
    };
    request.onerror = () => reject(new Unreachable("upload"));
    request.onload = () => {
      if (request.status < 300) {
        resolve(request.response as Upload);
        return;
      }
      const body = request.response as { title?: string; detail?: string } | null;
      const title = body?.title ?? request.statusText;
      reject(new Problem(request.status, title, body?.detail ?? "", "", []));
    };
    request.send(file);
  });
}

export { randomId };
