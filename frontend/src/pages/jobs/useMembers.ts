import { queryOptions, useQueries } from "@tanstack/react-query";
import { useState } from "react";

import { listJobs, type JobFilter } from "../../api/client";
import { JOBS_PAGE, useFallbackInterval } from "../../api/queries";
import type { Job } from "../../api/types";

type Cursor = string | undefined;

const membersQuery = (filter: JobFilter, cursor: Cursor) =>
  queryOptions({
    queryKey: ["jobs", "members", filter, cursor],
    queryFn: ({ signal }) => listJobs(filter, JOBS_PAGE, cursor, signal),
  });

/** The members of an open group as far as they are loaded; `more`: there are others. */
export interface Members {
  jobs: readonly Job[];
  more: boolean;
}

/** The members that match of the groups that are open, each group page by page. */
export function useMembers(filter: JobFilter) {
  const [open, setOpen] = useState<ReadonlyMap<number, readonly Cursor[]>>(new Map());
  const refetchInterval = useFallbackInterval();
  const wanted = [...open].flatMap(([group, cursors]) => cursors.map((cursor) => ({ group, cursor })));
  const answers = useQueries({
    queries: wanted.map(({ group, cursor }) => ({
      ...membersQuery({ ...filter, group }, cursor),
      refetchInterval,
    })),
  });

  const pagesOf = (group: number) => answers.filter((_, index) => wanted[index]?.group === group);
  const change = (group: number, cursors: readonly Cursor[] | null) => {
    const next = new Map(open);
    if (cursors === null) next.delete(group);
    else next.set(group, cursors);
    setOpen(next);
  };

  return {
    /** Null: the group is closed. */
    membersOf: (group: number): Members | null => {
      if (!open.has(group)) return null;
      const pages = pagesOf(group);
      const last = pages.at(-1)?.data;
      return { jobs: pages.flatMap(({ data }) => data?.results ?? []), more: last?.next !== null };
    },
    toggle: (group: number) => change(group, open.has(group) ? null : [undefined]),
    /** Loads the next page of the group, unless one is on its way. */
    loadMore: (group: number) => {
      const next = pagesOf(group).at(-1)?.data?.next;
      if (next !== undefined && next !== null) change(group, [...(open.get(group) ?? []), next]);
    },
  };
}
