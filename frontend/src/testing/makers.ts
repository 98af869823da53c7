/** Valid objects of the API for tests; a test states only what it is about. */
import type { Attempt, Gpu, Job, Node, NodeDetail } from "../api/types";

export const AT = (seconds: number): string => new Date(Date.UTC(2026, 0, 1, 12, 0, seconds)).toISOString();

export function makeJob(changes: Partial<Job> = {}): Job {
  return {
    id: 7,
    name: "train",
    vc: "vision",
    tenant: "acme",
    owner: "ada",
    state: "queued",
    stage: "full",
    desired: "run",
    hold: null,
    priority: "normal",
    tags: {},
    gpu_choices: [{ gpu_type: null, gpus: 1 }],
    gpu_type: null,
    gpus: 1,
    nodes: 1,
    gpus_total: 1,
    array: null,
    sweep: null,
    params: {},
    submitted_at: AT(0),
    started_at: null,
    ended_at: null,
    run_time_s: 0,
    running_since: null,
    exit_code: null,
    failure: null,
    reason: null,
    reason_detail: null,
    attempts: 0,
    position: null,
    idle: null,
    kept: null,
    links: { self: "", logs: "", events: "", attempts: "", why: "", page: "" },
    ...changes,
  };
}

export function makeAttempt(changes: Partial<Attempt> = {}): Attempt {
  return {
    number: 1,
    state: "running",
    stage: "full",
    allocations: [],
    placed_at: AT(10),
    started_at: AT(15),
    ended_at: null,
    exit_code: null,
    reason: null,
    reason_detail: null,
    failure: null,
    ...changes,
  };
}

export function makeGpu(changes: Partial<Gpu> = {}): Gpu {
  return {
    uuid: "GPU-1",
    index: 0,
    node: "n1",
    type: "A100",
    memory_mib: 40960,
    numa_node: null,
    healthy: true,
    health: "ok",
    health_since: null,
    health_why: null,
    utilization: null,
    memory_used_mib: null,
    temperature_c: null,
    power_w: null,
    jobs: [],
    busy: false,
    ...changes,
  };
}

export function makeNode(changes: Partial<Node> = {}): Node {
  return {
    name: "n1",
    pool: "main",
    admin: "active",
    health: "ready",
    reason: null,
    barred: null,
    single_user: false,
    single_user_shared: false,
    host_network: null,
    address: "",
    cpus: 16,
    cpus_used: 0,
    memory_mib: 65536,
    memory_used_mib: 0,
    rack: "",
    labels: {},
    last_seen_at: null,
    link: null,
    strikes: 0,
    gpus: [],
    ...changes,
  };
}

export function makeNodeDetail(changes: Partial<NodeDetail> = {}): NodeDetail {
  return {
    ...makeNode(),
    driver_version: null,
    toolkit_version: null,
    disk_mib: null,
    disk_free_mib: null,
    links: [],
    running_jobs: [],
    last_strikes: [],
    health_reports: [],
    gpu_checks: [],
    maintenance: [],
    ...changes,
  };
}
