import type { Gpu, Node } from "../../api/types";

export interface TypeFigures {
  name: string;
  total: number;
  used: number;
}

/** True while the scheduler may place jobs on the node. */
export const isUsable = (node: Node): boolean => node.admin === "active" && node.health === "ready";

/** How many GPUs of each type there are and how many are in use, by name. */
export function gpusByType(nodes: readonly Node[]): TypeFigures[] {
  const types = new Map<string, TypeFigures>();
  for (const gpu of nodes.flatMap((node) => node.gpus)) {
    const type = types.get(gpu.type) ?? { name: gpu.type, total: 0, used: 0 };
    type.total += 1;
    if (gpu.busy) type.used += 1;
    types.set(gpu.type, type);
  }
  return [...types.values()].sort((one, other) => one.name.localeCompare(other.name));
}

/** The mean utilisation of the GPUs that report one, in per cent; null when none does. */
export function meanUtilization(gpus: readonly Gpu[]): number | null {
  const known = gpus.map((gpu) => gpu.utilization).filter((value) => value !== null);
  if (known.length === 0) return null;
  return Math.round(known.reduce((sum, value) => sum + value, 0) / known.length);
}

export type GpuLook = "free" | "mine" | "busy" | "unhealthy" | "closed";

/** What one square stands for: a broken GPU first, then who holds it, then whether anybody may get it. */
export function lookOf(gpu: Gpu, node: Node, username: string): GpuLook {
  if (!gpu.healthy || node.health === "down") return "unhealthy";
  if (gpu.busy) return gpu.jobs.some((job) => job.owner === username) ? "mine" : "busy";
  return isUsable(node) ? "free" : "closed";
}

/** One of `count` colours for a job, the same on every page and after every reload. */
export function colourIndex(jobId: number, count: number): number {
  // Neighbouring ids must not get neighbouring hues: multiply by an odd constant and take the high bits.
  const mixed = Math.imul(jobId, 0x9e3779b1) >>> 0;
  return Math.floor((mixed / 2 ** 32) * count);
}

/** The step of a five-colour ramp for a share of 100. */
export const rampStep = (value: number): number => Math.min(4, Math.max(0, Math.floor(value / 20)));
