import { infiniteQueryOptions, useInfiniteQuery, useQueryClient } from "@tanstack/react-query";

import { messageOf } from "../../api/problem";
import { getQueue, reorderQueue } from "../../api/queue";
import type { QueueEntry } from "../../api/types";
import { toast } from "../../components/toast";
import { swapped } from "./order";

const QUEUE_POLL_MS = 3000;

/** Among the lists of jobs, because what changes a job may change its place. */
const queueQuery = (vc: number, mine: boolean) =>
  infiniteQueryOptions({
    queryKey: ["jobs", "queue", vc, mine],
    queryFn: ({ pageParam }) => getQueue(vc, mine, pageParam),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
  });

/** The pages of a queue that are loaded, and the exchange of two jobs, which is shown before the server has answered. */
export function useQueue(vcId: number, mine: boolean) {
  const client = useQueryClient();
  const options = queueQuery(vcId, mine);
  // No event tells of an order that changes while the jobs stay.
  const query = useInfiniteQuery({ ...options, refetchInterval: QUEUE_POLL_MS });
  const jobs = query.data?.pages.flatMap((page) => page.results) ?? [];

  const exchange = async (first: QueueEntry, second: QueueEntry) => {
    const [ahead, behind] =
      (first.position ?? 0) < (second.position ?? 0) ? [first, second] : [second, first];
    await client.cancelQueries({ queryKey: options.queryKey });
    client.setQueryData(options.queryKey, (old) => {
      if (old === undefined) return old;
      const order = swapped(
        old.pages.flatMap((page) => page.results),
        ahead,
        behind,
      );
      let start = 0;
      const pages = old.pages.map((page) => {
        const results = order.slice(start, start + page.results.length);
        start += page.results.length;
        return { ...page, results };
      });
      return { ...old, pages };
    });
    try {
      await reorderQueue(vcId, [behind.id, ahead.id]);
    } catch (error) {
      toast("failed", messageOf(error));
    }
    await client.invalidateQueries({ queryKey: ["jobs"] });
  };

  return { query, jobs, exchange };
}
