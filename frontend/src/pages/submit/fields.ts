/** How single fields of a spec read in the form, and how what was typed there is written. */
import type { Spec } from "../../api/types";

/** The command with which the page begins, so that a first job can be tried without any code. */
export const EXAMPLE_COMMAND = 'echo "Hello from $(hostname)"\necho "GPUs: $CUDA_VISIBLE_DEVICES"\n';

export interface GpuChoice {
  count: number;
  type: string;
  /** Written in a way that the form cannot show; it is changed in the YAML. */
  custom: boolean;
}

export function readGpus(value: unknown): GpuChoice {
  if (value === undefined || value === null) return { count: 0, type: "", custom: false };
  if (typeof value === "number" && Number.isInteger(value)) return { count: value, type: "", custom: false };
  if (typeof value === "string") {
    const match = /^(?:([^:]+):)?(\d+)$/.exec(value.trim());
    if (match !== null) return { count: Number(match[2]), type: match[1] ?? "", custom: false };
  }
  return { count: 0, type: "", custom: true };
}

export function writeGpus(count: number, type: string): number | string | undefined {
  if (count <= 0) return undefined;
  return type === "" ? count : `${type}:${count}`;
}

export const textOf = (value: unknown): string =>
  typeof value === "string"
    ? value
    : typeof value === "number" || typeof value === "boolean"
      ? String(value)
      : "";

export const numberOf = (value: unknown): number | "" => (typeof value === "number" ? value : "");

export function recordOf(value: unknown): Record<string, string> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return {};
  return Object.fromEntries(Object.entries(value as Spec).map(([key, each]) => [key, textOf(each)]));
}

/** `A=1` and `B=2` on lines of their own. */
export function writeLines(values: Record<string, string>): string {
  return Object.entries(values)
    .map(([key, value]) => `${key}=${value}`)
    .join("\n");
}

/** The pairs of the lines that have an equals sign; a line that is still being typed counts for nothing. */
export function readLines(text: string): Record<string, string> {
  const values: Record<string, string> = {};
  for (const line of text.split("\n")) {
    const at = line.indexOf("=");
    const key = line.slice(0, Math.max(at, 0)).trim();
    if (key !== "") values[key] = line.slice(at + 1);
  }
  return values;
}
