import { useQueryClient } from "@tanstack/react-query";

import { cancelJob, requeueJob } from "../api/client";
import { messageOf } from "../api/problem";
import { jobQuery } from "../api/queries";
import { plural } from "../format/amount";
import { toast } from "./toast";

/** So many cancellations of a bulk are on their way at a time. */
const AT_ONCE = 4;

/** What a person can do to jobs from any page; each says how it went. */
export function useJobActions() {
  const client = useQueryClient();

  const settle = async (ids: readonly number[]) => {
    await Promise.all([
      client.invalidateQueries({ queryKey: ["jobs"] }),
      ...ids.map((id) => client.invalidateQueries({ queryKey: ["job", id] })),
    ]);
  };

  const cancel = async (ids: readonly number[]) => {
    const left = [...ids];
    const refused: string[] = [];
    const work = async () => {
      for (let id = left.shift(); id !== undefined; id = left.shift()) {
        try {
          const job = await cancelJob(id);
          client.setQueryData(jobQuery(id).queryKey, (old) => old && { ...old, ...job, spec: old.spec });
        } catch (error) {
          refused.push(`#${id}: ${messageOf(error)}`);
        }
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    await settle(ids);
    if (refused.length > 0) toast("failed", `Not cancelled: ${refused.slice(0, 3).join("; ")}`);
    const done = ids.length - refused.length;
    if (done > 0)
      toast(
        "done",
        done === 1 ? `Job #${ids[0] ?? ""} is being cancelled` : `${plural(done, "job")} are being cancelled`,
      );
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

  return { cancel, requeue };
}
