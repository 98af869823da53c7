import type { MemberState, Sweep, SweepMember } from "../../api/types";
import { figure } from "../../components/charts/charts";
import type { Tone } from "../../components/StateChip";
import { gpuHours, plural } from "../../format/amount";
import { humanize } from "../../format/words";

const METHODS: Record<string, string> = {
  grid: "Grid",
  random: "Random search",
  halving: "Successive halving",
  asha: "ASHA",
};

export const methodWords = (method: string): string => METHODS[method] ?? humanize(method);

/** In the order in which a member goes through them, with how they read and look. */
export const MEMBER_STATES: readonly { state: MemberState; label: string; tone: Tone; colour: string }[] = [
  { state: "running", label: "Running", tone: "active", colour: "var(--active)" },
  { state: "succeeded", label: "Succeeded", tone: "succeeded", colour: "var(--succeeded)" },
  { state: "stopped", label: "Stopped early", tone: "cancelled", colour: "var(--chart-8)" },
  { state: "failed", label: "Failed", tone: "failed", colour: "var(--failed)" },
  { state: "cancelled", label: "Cancelled", tone: "cancelled", colour: "var(--cancelled)" },
  { state: "paused", label: "Paused", tone: "queued", colour: "var(--queued)" },
  { state: "waiting", label: "Waiting", tone: "queued", colour: "var(--gpu-free)" },
];

export const valueWords = (value: unknown): string =>
  typeof value === "number" ? figure(value) : typeof value === "string" ? value : JSON.stringify(value);

/** `lr 0.003, batch 64`. */
export const paramWords = (params: Record<string, unknown>): string =>
  Object.entries(params)
    .map(([name, value]) => `${name} ${valueWords(value)}`)
    .join(", ");

/** What stopping members early has saved, in a sentence; "" for a sweep that stops none. */
export function savedWords(sweep: Pick<Sweep, "rungs" | "members" | "saved_gpu_hours" | "state">): string {
  if (sweep.rungs.length === 0) return "";
  const { stopped } = sweep.members;
  if (stopped > 0) {
    return `Stopping ${plural(stopped, "member")} early saved ${gpuHours(sweep.saved_gpu_hours)} GPU-hours.`;
  }
  return sweep.state === "active" ? "No member has been stopped early yet." : "No member was stopped early.";
}

/** One member in a line, for the place below the chart. */
export function memberWords(member: SweepMember, metric: string): string {
  const value =
    member.value === null
      ? `no ${metric} yet`
      : `${metric} ${figure(member.value)}${member.step === null ? "" : ` at step ${member.step}`}`;
  const label = MEMBER_STATES.find(({ state }) => state === member.state)?.label ?? member.state;
  const why = member.why === "" ? "" : `: ${member.why}`;
  return `Member ${member.member}: ${value}; ${paramWords(member.params)}; ${label.toLowerCase()}${why}`;
}
