/** Valid objects of the API for tests; a test states only what it is about. */
import type { Cell, PoolCells, VcCells, VirtualCell } from "../api/cells";
import type { Cap, Tenant, VcDetail, VcQuota } from "../api/types";
import type {
  Attempt,
  Gpu,
  Job,
  JobGroup,
  Node,
  NodeDetail,
  Sweep,
  SweepMember,
  QueueEntry,
} from "../api/types";

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
    held: false,
    bumped: false,
    priority: "normal",
    tags: {},
    gpu_choices: [{ gpu_type: null, gpus: 1 }],
    gpu_type: null,
    gpus: 1,
    nodes: 1,
    gpus_total: 1,
    group: null,
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

/** A row that stands for a group of members that wait, but for the given counts. */
export function makeGroupRow(
  counts: Partial<NonNullable<JobGroup["progress"]>>,
  group: Partial<Omit<JobGroup, "progress">> = {},
  changes: Partial<Job> = {},
): Job {
  const none = { waiting: 0, running: 0, paused: 0, succeeded: 0, failed: 0, stopped: 0, cancelled: 0 };
  const times = { started_at: null, changed_at: AT(0), ended_at: null };
  return makeJob({
    name: "lr-search",
    group: {
      ...{ id: 3, kind: "sweep", name: "lr-search", state: "active", member: 1, index: null, members: 27 },
      ...group,
      progress: { ...none, ...times, ...counts },
    },
    ...changes,
  });
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
    runtimes: ["process", "docker"],
    no_containers: null,
    agent_in_container: false,
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
    install: null,
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

export function makeSweep(changes: Partial<Sweep> = {}): Sweep {
  return {
    id: 3,
    name: "lr-search",
    tenant: "acme",
    vc: "vision",
    pool: "main",
    owner: "ada",
    state: "active",
    reason: "",
    spec: {
      name: "lr-search",
      command: "python train.py",
      sweep: { method: "asha", metric: "loss", params: { lr: { log: [1e-4, 1e-1] }, batch: [32, 64, 128] } },
    },
    method: "asha",
    metric: "loss",
    goal: "min",
    params: ["lr", "batch"],
    parallel: 8,
    members: {
      total: 4,
      waiting: 1,
      running: 1,
      paused: 0,
      succeeded: 1,
      failed: 0,
      stopped: 1,
      cancelled: 0,
    },
    best: { job: 102, member: 2, params: { lr: 0.01, batch: 64 }, value: 0.21, step: 27 },
    best_so_far: [
      [60, 0.9],
      [240, 0.21],
    ],
    rungs: [
      { steps: 3, reached: 3, kept: 2 },
      { steps: 9, reached: 2, kept: 1 },
      { steps: 27, reached: 1, kept: 1 },
    ],
    gpu_hours: 12.5,
    saved_gpu_hours: 41,
    submitted_at: AT(0),
    ended_at: null,
    cloned_from: null,
    rho: null,
    ...changes,
  };
}

export function makeMember(changes: Partial<SweepMember> = {}): SweepMember {
  const member = changes.member ?? 1;
  return {
    member,
    job: 100 + member,
    state: "running",
    params: { lr: 0.001, batch: 32 },
    value: null,
    step: null,
    rung: 0,
    gpu_hours: 0,
    saved_gpu_hours: 0,
    why: "",
    started_at: null,
    ended_at: null,
    ...changes,
  };
}

/** A waiting job in the queue of its virtual cluster. */
export function makeQueueEntry(changes: Partial<QueueEntry> = {}): QueueEntry {
  return {
    ...makeJob({ position: 1 }),
    class: "guaranteed",
    evidence: {},
    waited_s: 60,
    starts_at: null,
    wait: null,
    movable: false,
    ...changes,
  };
}

export function makeVc(changes: Partial<VcDetail> = {}): VcDetail {
  return {
    id: 5,
    name: "vision-vc",
    tenant: "vision",
    tenant_id: 2,
    organisation: null,
    pool: "main",
    weight: 1,
    version: 3,
    changed_at: AT(0),
    changed_by: "otto",
    may: "read",
    quotas: [makeQuota()],
    waiting: 2,
    active: 3,
    loans: [],
    ...changes,
  };
}

export function makeQuota(changes: Partial<VcQuota> = {}): VcQuota {
  return {
    gpu_type: "A100",
    gpus: 8,
    borrowing_limit: null,
    lending_limit: null,
    used: 4,
    borrowed: 0,
    lent: 0,
    opportunistic: 0,
    ...changes,
  };
}

export function makeTenant(changes: Partial<Tenant> = {}): Tenant {
  return {
    id: 2,
    name: "vision",
    organisation: null,
    weight: 1,
    version: 7,
    changed_at: AT(0),
    changed_by: "otto",
    may: "manage",
    quotas: [],
    vcs: [{ id: 5, name: "vision-vc", pool: "main" }],
    members: [
      { username: "ada", role: "member" },
      { username: "mary", role: "manager" },
    ],
    caps: [],
    ...changes,
  };
}

export const NO_CAP: Cap = {
  user: null,
  role: null,
  gpus: null,
  jobs: null,
  gpu_hours_month: null,
  time_s: null,
  job_gpus: null,
};

export function makeCell(changes: Partial<Cell> = {}): Cell {
  return {
    address: "r1/n1",
    type: "A100-NODE",
    gpus: 8,
    healthy: true,
    state: "free",
    vc: null,
    virtual: null,
    used: 0,
    opportunistic: 0,
    children: [],
    ...changes,
  };
}

export function makeVirtualCell(changes: Partial<VirtualCell> = {}): VirtualCell {
  return {
    id: "A100-RACK.A100-NODE/0",
    type: "A100-NODE",
    gpus: 8,
    state: "free",
    physical: null,
    doomed: false,
    used: 0,
    jobs: [],
    children: [],
    ...changes,
  };
}

export function makeVcCells(changes: Partial<VcCells> = {}): VcCells {
  return {
    vc: "vision-vc",
    pool: "main",
    version: 4,
    cells: [{ type: "A100-RACK.A100-NODE", number: 1, gpus: 8, gpu_type: "A100" }],
    pinned: [],
    virtual: [makeVirtualCell()],
    opportunistic_gpus: 0,
    demoted: [],
    ...changes,
  };
}

export function makePoolCells(changes: Partial<PoolCells> = {}): PoolCells {
  const level = { gpus: 8, node: true, total: 4, owned: 1, promised: 1, free: 3, splittable: 3 };
  return {
    source: "measured",
    chains: [
      {
        name: "A100-RACK",
        leaf: "A100",
        levels: [{ type: "A100-NODE", path: "A100-RACK.A100-NODE", ...level }],
      },
    ],
    physical: [makeCell()],
    problems: [],
    ...changes,
  };
}
