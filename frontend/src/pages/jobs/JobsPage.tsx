import { Button } from "@mantine/core";
import { IconListDetails, IconPlus } from "@tabler/icons-react";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";

import { jobCountQuery, jobsQuery, useFallbackInterval } from "../../api/queries";
import type { Job, JobState } from "../../api/types";
import { Confirm } from "../../components/Confirm";
import { isOpen } from "../../components/cause";
import { groupOf, openMembers, rowKey, type Which } from "../../components/groups";
import { useJobActions } from "../../components/jobActions";
import { Empty, Failed } from "../../components/Notice";
import { Page, PageHeader } from "../../components/Page";
import { count, plural } from "../../format/amount";
import { Filters } from "./Filters";
import classes from "./JobsPage.module.css";
import { JobTable, JobTableSkeleton } from "./JobTable";
import { useMembers } from "./useMembers";

const route = getRouteApi("/app/jobs");

/** What can be cancelled at all. */
const OPEN = ["queued", "active"] as const;

const STATES = ["queued", "active", "succeeded", "failed", "cancelled"] as const;

/** How many jobs a row has that can be cancelled: of a group those of its members that match. */
function openJobs(row: Job, state: JobState | undefined): number {
  const group = groupOf(row);
  return group === null ? Number(isOpen(row)) : openMembers(group, state && [state]);
}

export function JobsPage() {
  const search = route.useSearch();
  const state = STATES.find((each) => each === search.state);
  const filter = {
    state: state && [state],
    vc: search.vc,
    tenant: search.tenant,
    owner: search.owner,
    tag: search.tag === undefined ? undefined : [search.tag],
    search: search.search,
    mine: search.mine === "1",
    group: Number(search.group) || undefined,
  };
  // Each member has a row of its own where they are asked for: all of them, or those of one group.
  const collapsed = search.members !== "1" && filter.group === undefined;
  const filtered = Object.keys(search).length > 0;
  const query = useInfiniteQuery({
    ...jobsQuery(collapsed ? { ...filter, members: false } : filter),
    refetchInterval: useFallbackInterval(),
  });
  const jobs = useMemo(() => query.data?.pages.flatMap((page) => page.results) ?? [], [query.data]);

  const members = useMembers(filter);

  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  // All that match, whether the page has loaded them or not; for the filter under which that was chosen.
  const filterText = JSON.stringify(filter);
  const [allOf, setAllOf] = useState<string | null>(null);
  const all = allOf === filterText;
  const loaded = jobs.flatMap((job) => [job, ...(members.membersOf(groupOf(job)?.id ?? 0)?.jobs ?? [])]);
  const open = loaded.filter((job) => openJobs(job, state) > 0);
  const chosen = all ? open : open.filter((job) => selected.has(rowKey(job)));
  const groups = new Set(chosen.flatMap((job) => groupOf(job)?.id ?? []));
  // The members of a chosen group are chosen with it.
  const each = chosen.filter((job) => groupOf(job) !== null || !groups.has(job.group?.id ?? 0));
  const matching = useQuery({ ...jobCountQuery(filter), enabled: all || chosen.length > 0 }).data
    ?.cancellable;
  const many = all ? matching : each.reduce((sum, job) => sum + openJobs(job, state), 0);
  const select = (keys: ReadonlySet<string>) => {
    setAllOf(null);
    setSelected(keys);
  };
  const states = filter.state ?? OPEN;
  const whichOf = (): Which[] => {
    if (all) return [{ ...filter, state: states }];
    const ids = each.filter((job) => groupOf(job) === null).map((job) => job.id);
    return [
      ...(ids.length > 0 ? [{ ids }] : []),
      ...[...groups].map((group) => ({ ...filter, group, state: states })),
    ];
  };

  const { cancelAll } = useJobActions();
  const [asking, setAsking] = useState(false);
  // What was asked about stays as it was while the dialog closes.
  const [question, setQuestion] = useState({ jobs: "", which: [] as Which[] });

  return (
    <Page title="Jobs">
      <PageHeader
        title="Jobs"
        actions={
          <Button
            leftSection={<IconPlus size={16} />}
            renderRoot={(props) => <Link to="/submit" {...props} />}
          >
            Submit job
          </Button>
        }
      />
      <Filters />
      {query.isPending ? (
        <JobTableSkeleton />
      ) : query.isError && query.data === undefined ? (
        <div className="card">
          <Failed error={query.error} onRetry={() => void query.refetch()} />
        </div>
      ) : jobs.length === 0 ? (
        <div className="card">
          {filtered ? (
            <Empty
              icon={<IconListDetails size={20} />}
              title="No job matches"
              action={
                <Button variant="default" renderRoot={(props) => <Link to="/jobs" search={{}} {...props} />}>
                  Clear the filters
                </Button>
              }
            >
              Other filters may find what you look for.
            </Empty>
          ) : (
            <Empty
              icon={<IconListDetails size={20} />}
              title="No jobs yet"
              action={
                <Button renderRoot={(props) => <Link to="/submit" {...props} />}>Submit the first one</Button>
              }
            >
              Jobs that you or your tenants submit appear here.
            </Empty>
          )}
        </div>
      ) : (
        <JobTable
          jobs={jobs}
          selected={all ? new Set(open.map(rowKey)) : selected}
          open={open}
          members={members}
          onSelect={select}
          hasMore={query.hasNextPage}
          loadingMore={query.isFetchingNextPage}
          onMore={() => {
            if (!query.isFetchingNextPage) void query.fetchNextPage();
          }}
        />
      )}
      {many !== undefined && many > 0 ? (
        <div className={classes.bulk} role="region" aria-label="Selected jobs">
          <span>{all ? `All ${plural(many, "job")} that match` : `${plural(many, "job")} selected`}</span>
          {!all && matching !== undefined && matching > many ? (
            <Button size="xs" variant="default" onClick={() => setAllOf(filterText)}>
              Select all {count(matching)} that match
            </Button>
          ) : null}
          <Button size="xs" variant="default" onClick={() => select(new Set())}>
            Clear
          </Button>
          <Button
            size="xs"
            color="danger"
            onClick={() => {
              setQuestion({
                jobs: plural(many, "job"),
                which: whichOf(),
              });
              setAsking(true);
            }}
          >
            Cancel {many === 1 ? "job" : "jobs"}
          </Button>
        </div>
      ) : null}
      <Confirm
        opened={asking}
        title={`Cancel ${question.jobs}?`}
        yes={`Cancel ${question.jobs}`}
        onClose={() => setAsking(false)}
        onYes={async () => {
          await cancelAll(question.which);
          select(new Set());
        }}
      >
        Running ones are stopped, with time to save a checkpoint; queued ones leave the queue.
      </Confirm>
    </Page>
  );
}
