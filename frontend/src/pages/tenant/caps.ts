/** The caps of a tenant as the form shows them: what is typed, and what is sent. */
import type { Cap } from "../../api/types";

/** The limits that a cap may set; times are typed in hours. */
export const LIMITS = [
  { key: "gpus", label: "GPUs at once", unit: 1, whole: true },
  { key: "jobs", label: "Jobs at once", unit: 1, whole: true },
  { key: "gpu_hours_month", label: "GPU-hours a month", unit: 1, whole: false },
  { key: "time_s", label: "Longest time of a job, h", unit: 3600, whole: false },
  { key: "job_gpus", label: "GPUs of one job", unit: 1, whole: true },
] as const;
export type Limit = (typeof LIMITS)[number]["key"];

export interface CapFields {
  /** `user:ada`, `role:member`, or empty for every member. */
  whom: string;
  limits: Record<Limit, string>;
}

export const NO_LIMITS: Record<Limit, string> = {
  gpus: "",
  jobs: "",
  gpu_hours_month: "",
  time_s: "",
  job_gpus: "",
};

const shown = (value: number | null, unit: number): string =>
  value === null ? "" : String(Number((value / unit).toFixed(4)));

export function fieldsOf(cap: Cap): CapFields {
  const limits = { ...NO_LIMITS };
  for (const { key, unit } of LIMITS) limits[key] = shown(cap[key], unit);
  return {
    whom: cap.user !== null ? `user:${cap.user}` : cap.role !== null ? `role:${cap.role}` : "",
    limits,
  };
}

export function capOf({ whom, limits }: CapFields): Cap {
  const [kind, name] = [whom.slice(0, 4), whom.slice(5)];
  const value = (key: Limit, unit: number) => (limits[key].trim() === "" ? null : Number(limits[key]) * unit);
  return {
    user: kind === "user" ? name : null,
    role: kind === "role" ? (name === "manager" ? "manager" : "member") : null,
    gpus: value("gpus", 1),
    jobs: value("jobs", 1),
    gpu_hours_month: value("gpu_hours_month", 1),
    time_s: value("time_s", 3600),
    job_gpus: value("job_gpus", 1),
  };
}

/** The first limit that is no number, as the server would name it, and why. */
export function mistakeIn(caps: readonly CapFields[]): { field: string; message: string } | null {
  for (const [index, { limits }] of caps.entries()) {
    for (const { key, whole } of LIMITS) {
      const value = limits[key].trim();
      if (!(whole ? /^\d*$/ : /^\d*(\.\d+)?$/).test(value)) {
        const message = whole
          ? "Give a whole number from 0 on, or leave it empty."
          : "Give a number, or leave it empty.";
        return { field: `caps.${index}.${key}`, message };
      }
    }
  }
  return null;
}

export function whomWords(whom: string): string {
  if (whom === "") return "Every member";
  return whom.startsWith("user:") ? whom.slice(5) : whom === "role:manager" ? "Managers" : "Members";
}
