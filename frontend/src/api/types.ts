/** The shapes of the REST API that the pages read. */

export type JobState = "queued" | "active" | "succeeded" | "failed" | "cancelled";

export interface Hold {
  reason: string;
  detail: string;
  helps: string[];
}

export interface Failure {
  class: string;
  category: string;
  line: string;
  hint: string;
  reaction: string;
}

export type Spec = Record<string, unknown>;

export interface Job {
  id: number;
  name: string;
  vc: string;
  tenant: string;
  owner: string;
  state: JobState;
  stage: string;
  desired: "run" | "stop";
  hold: Hold | null;
  priority: string;
  tags: Record<string, string>;
  gpu_type: string | null;
  gpus: number;
  nodes: number;
  gpus_total: number;
  submitted_at: string;
  started_at: string | null;
  ended_at: string | null;
  exit_code: number | null;
  failure: Failure | null;
  reason: string | null;
  reason_detail: string | null;
  attempts: number;
  position: number | null;
}

export interface JobWithSpec extends Job {
  spec: Spec;
  cloned_from: number | null;
}

export interface Page<T> {
  results: T[];
  next: string | null;
}

export interface Why {
  state: string;
  reason: string | null;
  detail: string;
  evidence: Record<string, unknown>;
  helps: string[];
  position: number | null;
  cycle: number | string | null;
  at: string | null;
}

export interface Allocation {
  id: number;
  node: string;
  rank: number;
  gpus: string[];
  observed: string;
  exit_code: number | null;
  log_size: number;
  log_complete: boolean;
}

export interface Attempt {
  number: number;
  state: string;
  stage: string;
  allocations: Allocation[];
  placed_at: string;
  started_at: string | null;
  ended_at: string | null;
  exit_code: number | null;
  reason: string | null;
  reason_detail: string | null;
}

export interface JobEvent {
  id: number | string;
  at: string;
  kind: string;
  actor: string | null;
  data: Record<string, unknown>;
}

export interface Quota {
  gpu_type: string;
  gpus: number;
  used: number;
}

export interface Vc {
  name: string;
  tenant: string;
  pool: string;
  quotas: Quota[];
  waiting: number;
  active: number;
}

export interface Pool {
  name: string;
  policy: string;
  placement: string;
  guard: string;
  nodes: number;
  gpus: { type: string; total: number; used: number; free: number }[];
}

export interface Gpu {
  uuid: string;
  index: number;
  node: string;
  type: string;
  memory_mib: number;
  healthy: boolean;
  utilization: number | null;
  memory_used_mib: number | null;
  temperature_c: number | null;
  power_w: number | null;
  job: { id: number; name: string; owner: string; tenant: string } | null;
  busy: boolean;
}

export interface Node {
  name: string;
  pool: string;
  admin: string;
  health: string;
  reason: string | null;
  address: string;
  cpus: number;
  cpus_used: number;
  memory_mib: number;
  memory_used_mib: number;
  rack: string;
  labels: Record<string, string>;
  last_seen_at: string | null;
  gpus: Gpu[];
}

export interface Me {
  username: string;
  email: string;
  is_operator: boolean;
  tenants: { name: string; role: string }[];
  vcs: string[];
  default_vc: string | null;
}

export interface Token {
  id: number;
  name: string;
  prefix: string;
  created_at: string;
  expires_at: string | null;
  last_used_at: string | null;
}

export interface NewToken extends Token {
  token: string;
}

export interface DryRun {
  valid: boolean;
  spec: Spec;
  feasible: boolean;
  fits_quota: boolean;
  starts_now: boolean;
  hold: Hold | null;
  position: number | null;
  gpus_total: number;
}

export interface Upload {
  sha256: string;
  size: number;
}

export type NodeAction = "cordon" | "drain" | "resume";
