/** Groups of jobs, such as sweeps: in lists one row stands for all members of a group. */
import type { JobFilter } from "../api/client";
import type { GroupState, Job, JobGroup, JobState } from "../api/types";

type Progress = NonNullable<JobGroup["progress"]>;

/** A group with the counts of its members. */
export type GroupRow = JobGroup & { progress: Progress };

/** The group that this row of a list stands for; null: it is a job by itself. */
export function groupOf({ group }: Job): GroupRow | null {
  const progress = group?.progress ?? null;
  return group === null || progress === null ? null : { ...group, progress };
}

/** What tells the rows of a list apart: numbers of jobs and of groups may be the same. */
export const rowKey = (row: Job): string => {
  const group = groupOf(row);
  return group === null ? `job ${row.id}` : `group ${group.id}`;
};

/** `member 4`, or of an array `index 3`. */
export const memberWords = ({ member, index }: JobGroup): string =>
  index === null ? `member ${member}` : `index ${index}`;

/** `3 of 27 ended`. */
export function endedWords({ members, progress }: GroupRow): string {
  return `${members - progress.waiting - progress.running - progress.paused} of ${members} ended`;
}

/** `3 of 27 ended, 8 running, 16 waiting, 1 failed`. */
export function progressWords(group: GroupRow): string {
  const { running, paused, waiting, failed } = group.progress;
  const counts = Object.entries({ running, paused, waiting, failed }).filter(([, many]) => many > 0);
  return [endedWords(group), ...counts.map(([word, many]) => `${many} ${word}`)].join(", ");
}

/** A group that goes on waits until a member has its GPUs. */
export const waits = (state: GroupState, running: number): boolean => state === "active" && running === 0;

/** How many members of the group can be cancelled, of those in one of the states if any are given. */
export function openMembers({ progress }: GroupRow, states?: readonly JobState[]): number {
  const has = (state: JobState) => states === undefined || states.includes(state);
  return (has("queued") ? progress.waiting + progress.paused : 0) + (has("active") ? progress.running : 0);
}

/** Jobs that belong to a selection: those by their numbers, or the members of a group that match. */
export type Which = JobFilter | { ids: readonly number[] };
