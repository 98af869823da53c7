/** How single fields of a spec read in the form, and how what was typed there is written. */
import type { Spec } from "../../api/types";

/** The command with which the page begins, so that a first job can be tried without any code. */
export const EXAMPLE_COMMAND = 'echo "Hello from $(hostname)"\necho "GPUs: $CUDA_VISIBLE_DEVICES"\n';

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

/** The texts of a list; what else stands there is left to the server. */
export const namesOf = (value: unknown): string[] =>
  Array.isArray(value) ? [...new Set(value.map(textOf).filter((name) => name !== ""))] : [];

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

/** The lines that have a text, each once. */
export const readList = (text: string): string[] => namesOf(text.split("\n").map((line) => line.trim()));

/** The kinds of events in `notify`, where each channel has the same; null where the form cannot show it. */
export function kindsOf(value: unknown): string[] | null {
  if (value === undefined || value === null) return [];
  if (Array.isArray(value)) return namesOf(value);
  const { mail, webhook } = value as Spec;
  const [one, other] = [namesOf(mail), namesOf(webhook)];
  return one.join() === other.join() ? one : null;
}
