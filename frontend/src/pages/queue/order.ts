/** How a job is moved among the waiting jobs of its owner. */
import type { QueueEntry } from "../../api/types";

export type Direction = "up" | "down";

/** The jobs that share out places with this one: those of its owner that may move, of its class, in order. */
function peersOf(jobs: readonly QueueEntry[], job: QueueEntry): QueueEntry[] {
  return jobs.filter((each) => each.movable && each.owner === job.owner && each.class === job.class);
}

/** The job whose place this one would take, or null if there is none in this direction. */
export function neighbourOf(
  jobs: readonly QueueEntry[],
  job: QueueEntry,
  direction: Direction,
): QueueEntry | null {
  const peers = peersOf(jobs, job);
  const index = peers.findIndex((each) => each.id === job.id);
  if (index < 0) return null;
  return peers[index + (direction === "up" ? -1 : 1)] ?? null;
}

/** The jobs with these two in each other's places. */
export function swapped(jobs: readonly QueueEntry[], a: QueueEntry, b: QueueEntry): QueueEntry[] {
  const places = new Map([
    [a.id, { ...b, position: a.position }],
    [b.id, { ...a, position: b.position }],
  ]);
  return jobs.map((each) => places.get(each.id) ?? each);
}
