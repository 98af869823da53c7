import { useQueryClient } from "@tanstack/react-query";

import { actOnWaiting, cancelJob, cancelJobs, requeueJob, type WaitingAct } from "../api/client";
import { messageOf } from "../api/problem";
import { jobQuery } from "../api/queries";
import type { CancelAnswer } from "../api/types";
import { plural } from "../format/amount";
import type { Which } from "./groups";
import { toast } from "./toast";

const DONE: Record<WaitingAct, string> = {
  hold: "is held until it is released",
  release: "waits for its turn again",
  bump: "is at the top of its virtual cluster",
  unbump: "is back at its own place",
};

/** What a person can do to jobs from any page; each says how it went. */
export function useJobActions() {
  const client = useQueryClient();

  const settle = async (ids: readonly number[]) => {
    await Promise.all([
      client.invalidateQueries({ queryKey: ["jobs"] }),
      ...ids.map((id) => client.invalidateQueries({ queryKey: ["job", id] })),
    ]);
  };

  const cancel = async (id: number) => {
    try {
      const job = await cancelJob(id);
      client.setQueryData(jobQuery(id).queryKey, (old) => old && { ...old, ...job, spec: old.spec });
      toast("done", `Job #${id} is being cancelled`);
    } catch (error) {
      toast("failed", messageOf(error));
    }
    await settle([id]);
  };

  /** Cancels jobs by their numbers, and all that match a filter and that the caller may cancel. */
  const cancelAll = async (selections: readonly Which[]) => {
    const done: number[] = [];
    const refused: string[] = [];
    for (const which of selections) {
      try {
        let answer: CancelAnswer;
        do {
          answer = await cancelJobs(which);
          done.push(...answer.cancelled);
          refused.push(...answer.refused.map(({ id, problem }) => `#${id}: ${problem.detail}`));
        } while (answer.remaining > 0 && answer.cancelled.length > 0);
      } catch (error) {
        refused.push(messageOf(error));
      }
    }
    if (refused.length > 0) toast("failed", `Not cancelled: ${refused.slice(0, 3).join("; ")}`);
    const asked = selections.map((which) => ("ids" in which ? which.ids.length : null));
    const left =
      asked.includes(null) || refused.length > 0
        ? 0
        : asked.reduce<number>((sum, many) => sum + (many ?? 0), 0) - done.length;
    if (left > 0) {
      toast("failed", `${plural(left, "job")} not cancelled: ended already, or not yours to cancel`);
    }
    if (done.length > 0) {
      toast("done", `${plural(done.length, "job")} ${done.length === 1 ? "is" : "are"} being cancelled`);
    }
    await settle(done);
  };

  const requeue = async (id: number) => {
    try {
      await requeueJob(id);
      toast("done", `Job #${id} goes back into the queue`);
    } catch (error) {
      toast("failed", messageOf(error));
    }
    await settle([id]);
  };

  /** Holds, releases, bumps or unbumps a waiting job. */
  const act = async (id: number, what: WaitingAct) => {
    try {
      await actOnWaiting(id, what);
      toast("done", `Job #${id} ${DONE[what]}`);
    } catch (error) {
      toast("failed", messageOf(error));
    }
    await settle([id]);
  };

  return { act, cancel, cancelAll, requeue };
}
