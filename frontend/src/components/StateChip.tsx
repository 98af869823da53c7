import type { CSSProperties, ReactNode } from "react";

import type { GroupState, JobState } from "../api/types";
import { humanize } from "../format/words";
import { waits } from "./groups";
import classes from "./StateChip.module.css";

export type Tone = "queued" | "active" | "succeeded" | "failed" | "cancelled";

const LABELS: Record<JobState, string> = {
  queued: "Queued",
  active: "Running",
  succeeded: "Succeeded",
  failed: "Failed",
  cancelled: "Cancelled",
};

/** The tones of the states that attempts and nodes have and jobs have not. */
const TONES: Record<string, Tone> = {
  queued: "queued",
  placed: "active",
  starting: "active",
  running: "active",
  active: "active",
  stopping: "queued",
  succeeded: "succeeded",
  failed: "failed",
  lost: "failed",
  preempted: "cancelled",
  cancelled: "cancelled",
  ready: "succeeded",
  suspect: "queued",
  pending: "queued",
  down: "failed",
};

export const toneOf = (state: string): Tone => TONES[state] ?? "cancelled";

export function toneStyle(tone: Tone): CSSProperties {
  return {
    "--chip-dot": `var(--${tone})`,
    "--chip-text": `var(--${tone}-text)`,
    "--chip-soft": `var(--${tone}-soft)`,
  } as CSSProperties;
}

export function Chip({
  tone,
  pulse = false,
  children,
}: {
  tone: Tone;
  pulse?: boolean;
  children: ReactNode;
}) {
  return (
    <span className={classes.chip} style={toneStyle(tone)}>
      <span className={pulse ? `${classes.dot} ${classes.pulse}` : classes.dot} aria-hidden="true" />
      {children}
    </span>
  );
}

/** Labels of a job in screening, before it gets all of its GPUs. */
const IN_SCREENING: Partial<Record<JobState, string>> = {
  queued: "Waits for screening",
  active: "In screening",
  failed: "Failed in screening",
};

/** What a job is doing now; a running job that shall stop says so. */
export function JobStateChip({
  state,
  desired,
  stage = "full",
}: {
  state: JobState;
  desired?: "run" | "stop";
  stage?: "screening" | "full";
}) {
  const stopping = state === "active" && desired === "stop";
  const label = (stage === "screening" ? IN_SCREENING[state] : undefined) ?? LABELS[state];
  return (
    <Chip tone={stopping ? "queued" : toneOf(state)} pulse={state === "active"}>
      {stopping ? "Stopping" : label}
    </Chip>
  );
}

/** What a group is doing now, by how many of its members have their GPUs. */
export function GroupStateChip({ state, running }: { state: GroupState; running: number }) {
  if (waits(state, running)) return <Chip tone="queued">Waiting</Chip>;
  return (
    <Chip tone={toneOf(state)} pulse={state === "active"}>
      {LABELS[state]}
    </Chip>
  );
}

export function AttemptStateChip({ state }: { state: string }) {
  return <Chip tone={toneOf(state)}>{humanize(state)}</Chip>;
}

/** A quiet label for what is worth knowing and needs no colour. */
export function Label({ children }: { children: ReactNode }) {
  return <span className={classes.quiet}>{children}</span>;
}
