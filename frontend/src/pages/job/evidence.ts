import { mebibytes } from "../../format/amount";
import { timesInWords } from "../../format/time";
import { humanize } from "../../format/words";

interface Reading {
  name: string;
  value: string;
}

function shown(key: string, value: unknown, now: number): string {
  if (typeof value === "string") return timesInWords(value, now);
  if (typeof value === "number" && key.includes("mib")) return mebibytes(value);
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  return Array.isArray(value) ? value.join(", ") : JSON.stringify(value);
}

/** The evidence as names and values; what the meter shows already, and what is empty, is left out. */
export function readings(evidence: Record<string, unknown>, now: number): Reading[] {
  const metered = quotaOf(evidence) === null ? [] : ["used", "quota"];
  return Object.entries(evidence)
    .filter(([key, value]) => !metered.includes(key) && value !== "" && value !== null)
    .map(([key, value]) => ({
      name: key === "vc" ? "Virtual cluster" : humanize(key.replace("_mib", "")),
      value: shown(key, value, now),
    }));
}

/** The two figures of a quota, where the evidence is of one. */
export function quotaOf(evidence: Record<string, unknown>): { used: number; quota: number } | null {
  const { used, quota } = evidence;
  return typeof used === "number" && typeof quota === "number" ? { used, quota } : null;
}
