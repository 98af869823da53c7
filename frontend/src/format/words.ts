/** Words for the names that the scheduler and the life cycle use. */
import type { Efficiency, Outcome } from "../api/types";

const HOLDS: Record<string, string> = {
  quota: "Quota in use",
  quota_too_small: "More than the quota",
  infeasible: "Fits no node",
  no_free_gpus: "No free GPUs",
  fragmented: "GPUs are scattered",
  behind_head: "Behind another job",
  cpu_or_memory: "CPU or memory short",
  reserved: "GPUs reserved",
  runtime: "No room with its runtime",
  maintenance: "Maintenance comes first",
  single_user: "Node of another tenant",
  named_nodes: "No room on its nodes",
  policy: "Served later by the policy",
  group: "Its group holds it back",
  dependency: "Waits for other jobs",
  begin: "Its time has not come",
  held: "Held until it is released",
  cap: "Owner's limit reached",
  back_off: "Waiting to retry",
  still_stopping: "Last try still stopping",
  cycle_limit: "Next in the cycle",
  refused: "Placement refused",
  screening: "Screened on a few GPUs first",
};

const VERDICTS: Record<string, string> = {
  passed: "Passed screening",
  failed: "Failed in screening",
  inconclusive: "Screening was inconclusive",
  interrupted: "Screening was interrupted",
  untried: "Went on unscreened",
  trusted: "Trusted, not screened",
};

const REASONS: Record<string, string> = {
  exit_nonzero: "Exited with an error",
  killed_by_signal: "Killed by a signal",
  launch_failed: "Could not be started",
  code_unavailable: "Code not available",
  image_denied: "Image not allowed",
  image_unreachable: "Registry out of reach",
  image_no_space: "No space for the image",
  disk_exceeded: "Took too much disk",
  spec_refused: "Refused by the node",
  time_limit: "Time limit reached",
  cancelled_by_user: "Cancelled",
  not_claimed: "Not picked up by the node",
  screening_passed: "Passed screening",
  gpu_check_failed: "GPU failed its check",
  idle: "GPUs were idle",
  gpu_lost: "GPU left the bus",
  gpu_ecc: "GPU memory error",
  dependency_never_met: "What it waited for cannot happen",
  infeasible: "Fits no node",
  loss_diverged: "The loss diverged",
  resize_failed: "Did not come back from a resize",
  stopped_early: "Stopped by its sweep",
  paused: "Paused by its sweep",
  log_rule: "Stopped by a rule of the operators",
  semantic_error: "Python exception",
  no_signature: "Failed without a known cause",
};

const OUTCOMES: Record<string, string> = {
  running: "Still running",
  succeeded: "Succeeded",
  failed: "Failed",
  cancelled: "Cancelled",
  requeued: "Requeued by the owner",
  preempted: "Preempted, goes on from its checkpoint",
  work_lost: "Preempted, begins anew",
  node_lost: "Node lost",
  screening: "Screening",
} satisfies Record<Outcome, string>;

const CATEGORIES: Record<string, string> = {
  user: "The job itself",
  ai_engine: "The libraries that the job uses",
  infrastructure: "The infrastructure",
  platform: "The platform",
};

const GRADES: Record<string, string> = {
  good: "Used its GPUs well",
  fair: "Used its GPUs in part",
  poor: "Used little of its GPUs",
  idle: "Did not use its GPUs",
} satisfies Record<NonNullable<Efficiency["grade"]>, string>;

const ACRONYMS: Record<string, string> = {
  cpu: "CPU",
  cpus: "CPUs",
  cublas: "cuBLAS",
  cuda: "CUDA",
  cudnn: "cuDNN",
  ecc: "ECC",
  gpu: "GPU",
  gpus: "GPUs",
  io: "I/O",
  mib: "MiB",
  mpi: "MPI",
  nccl: "NCCL",
  nvlink: "NVLink",
  uuid: "UUID",
};

/** A snake_case or dotted name as a sentence's first word: `node_lost` gives `Node lost`. */
export function humanize(name: string): string {
  const words = name.replaceAll(/[_.:-]+/g, " ").trim();
  const spelt = words.replaceAll(/\b[a-z]+\b/gi, (word) => ACRONYMS[word.toLowerCase()] ?? word);
  return spelt.charAt(0).toUpperCase() + spelt.slice(1);
}

/** A text as a sentence: with a capital first letter, unless it begins with one of the names, or with a number in its word. */
export function sentence(text: string, names: readonly string[] = []): string {
  const [first = ""] = text.split(" ");
  return /\d/.test(first) || names.includes(first) ? text : text.charAt(0).toUpperCase() + text.slice(1);
}

const ADVICE: Record<string, string> = {
  nan: "The loss is not a number (NaN)",
  rising: "The loss is rising",
  plateau: "The loss has reached a plateau",
};

export const adviceWords = (kind: string): string => ADVICE[kind] ?? humanize(kind);
export const holdWords = (reason: string): string => HOLDS[reason] ?? humanize(reason);
export const verdictWords = (verdict: string): string => VERDICTS[verdict] ?? humanize(verdict);
export const reasonWords = (reason: string): string => REASONS[reason] ?? humanize(reason);
export const outcomeWords = (outcome: string): string => OUTCOMES[outcome] ?? humanize(outcome);
export const categoryWords = (category: string): string => CATEGORIES[category] ?? humanize(category);
export const gradeWords = (grade: string): string => GRADES[grade] ?? humanize(grade);
