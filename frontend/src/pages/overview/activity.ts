import type { Job } from "../../api/types";
import { causeOf } from "../../components/cause";
import { groupOf, progressWords, waits, type GroupRow } from "../../components/groups";
import { gpuCount } from "../../format/request";

/** The last thing that happened to a job, as a sentence about it. */
export interface Happening {
  job: Job;
  at: string;
  verb: string;
  detail: string;
}

function endOf(job: Job): string {
  const cause = causeOf(job);
  if (job.state === "failed") return cause === null ? "failed" : `failed: ${cause}`;
  return job.state === "cancelled" ? "was cancelled" : "succeeded";
}

/** The last thing that happened to the members of a group, in their number. */
function groupHappening(job: Job, group: GroupRow, owner: string): Happening {
  const { progress, state } = group;
  const going = waits(state, progress.running) ? "waits" : "runs";
  const verb = state === "active" ? going : state === "cancelled" ? "was cancelled" : state;
  return {
    job,
    at: progress.ended_at ?? progress.changed_at,
    verb: `${verb}: ${progressWords(group)}`,
    detail: `${group.kind} #${group.id} · ${owner}${job.vc} · ${group.members} × ${gpuCount(job)}`,
  };
}

export function happeningOf(job: Job, withOwner = false): Happening {
  const owner = withOwner ? `${job.owner} · ` : "";
  const group = groupOf(job);
  if (group !== null) return groupHappening(job, group, owner);
  const detail = `#${job.id} · ${owner}${job.vc} · ${gpuCount(job)}`;
  if (job.ended_at !== null) return { job, at: job.ended_at, verb: endOf(job), detail };
  if (job.state === "active") {
    return {
      job,
      at: job.started_at ?? job.submitted_at,
      verb: job.started_at === null ? "is starting" : "started",
      detail,
    };
  }
  const cause = causeOf(job);
  const position = job.position === null ? "" : ` · queue position ${job.position}`;
  return {
    job,
    at: job.submitted_at,
    verb: cause === null ? "was queued" : `waits: ${cause.toLowerCase()}`,
    detail: detail + position,
  };
}

/** The newest happenings first; `withOwner` names the owner of each job. */
export function happenings(jobs: readonly Job[], limit: number, withOwner = false): Happening[] {
  return jobs
    .map((job) => happeningOf(job, withOwner))
    .sort((one, other) => Date.parse(other.at) - Date.parse(one.at))
    .slice(0, limit);
}
