import type { CSSProperties } from "react";

import type { Gpu } from "../../api/types";
import { colourIndex, rampStep, type GpuLook } from "./figures";

export const COLOURINGS = ["state", "job", "tenant", "utilisation"] as const;
export type Colouring = (typeof COLOURINGS)[number];

/** Colours that are told apart on both themes; jobs share one only when there are more jobs than colours. */
export const JOB_COLOURS = [
  "#4a6de8",
  "#d9822b",
  "#1e9c8c",
  "#c2479a",
  "#7d9a24",
  "#8f63e6",
  "#d4573f",
  "#2c8fc4",
  "#b48a1c",
  "#5f8f6b",
  "#a0627d",
  "#6b7fa6",
] as const;

export const LOOK_WORDS: Record<GpuLook, string> = {
  free: "Free",
  mine: "Mine",
  busy: "In use",
  unhealthy: "Unhealthy",
  closed: "Not schedulable",
};

/** A colour for each tenant, by name; tenants share one only when there are more of them than colours. */
export function tenantColours(tenants: Iterable<string>): ReadonlyMap<string, string> {
  const names = [...new Set(tenants)].sort((one, other) => one.localeCompare(other));
  return new Map(names.map((name, index) => [name, JOB_COLOURS[index % JOB_COLOURS.length] ?? ""]));
}

/** The fill of a square, or nothing where its look decides. */
export function fillOf(
  gpu: Gpu,
  look: GpuLook,
  colouring: Colouring,
  tenants: ReadonlyMap<string, string>,
): CSSProperties | undefined {
  if (look === "unhealthy") return undefined;
  const [first] = gpu.jobs;
  if (colouring === "tenant") {
    const background = tenants.get(first?.tenant ?? "");
    return background === undefined ? undefined : { background };
  }
  if (colouring === "job" && first !== undefined) {
    return { background: JOB_COLOURS[colourIndex(first.id, JOB_COLOURS.length)] };
  }
  if (colouring === "utilisation" && gpu.utilization !== null) {
    return { background: `var(--ramp-${rampStep(gpu.utilization)})` };
  }
  return undefined;
}
