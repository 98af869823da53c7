import { Button } from "@mantine/core";
import { IconListDetails, IconPlus } from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";

import { jobsQuery, useFallbackInterval } from "../../api/queries";
import { Confirm } from "../../components/Confirm";
import { isOpen } from "../../components/cause";
import { useJobActions } from "../../components/jobActions";
import { Empty, Failed } from "../../components/Notice";
import { Page, PageHeader } from "../../components/Page";
import { plural } from "../../format/amount";
import { Filters } from "./Filters";
import classes from "./JobsPage.module.css";
import { JobTable, JobTableSkeleton } from "./JobTable";

const route = getRouteApi("/app/jobs");

const STATES = ["queued", "active", "succeeded", "failed", "cancelled"] as const;

export function JobsPage() {
  const search = route.useSearch();
  const filter = {
    state: STATES.find((state) => state === search.state),
    vc: search.vc,
    tenant: search.tenant,
    owner: search.owner,
    search: search.search,
    mine: search.mine === "1",
  };
  const filtered = Object.keys(search).length > 0;
  const query = useInfiniteQuery({ ...jobsQuery(filter), refetchInterval: useFallbackInterval() });
  const jobs = useMemo(() => query.data?.pages.flatMap((page) => page.results) ?? [], [query.data]);

  const [selected, setSelected] = useState<ReadonlySet<number>>(new Set());
  const [asking, setAsking] = useState(false);
  const { cancel } = useJobActions();
  const chosen = jobs.filter((job) => selected.has(job.id) && isOpen(job)).map((job) => job.id);

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
          selected={selected}
          onSelect={setSelected}
          hasMore={query.hasNextPage}
          loadingMore={query.isFetchingNextPage}
          onMore={() => {
            if (!query.isFetchingNextPage) void query.fetchNextPage();
          }}
        />
      )}
      {chosen.length > 0 ? (
        <div className={classes.bulk} role="region" aria-label="Selected jobs">
          <span>{plural(chosen.length, "job")} selected</span>
          <Button size="xs" variant="default" onClick={() => setSelected(new Set())}>
            Clear
          </Button>
          <Button size="xs" color="danger" onClick={() => setAsking(true)}>
            Cancel {chosen.length === 1 ? "job" : "jobs"}
          </Button>
        </div>
      ) : null}
      <Confirm
        opened={asking}
        title={`Cancel ${plural(chosen.length, "job")}?`}
        yes={`Cancel ${plural(chosen.length, "job")}`}
        onClose={() => setAsking(false)}
        onYes={async () => {
          await cancel(chosen);
          setSelected(new Set());
        }}
      >
        Running ones are stopped, with time to save a checkpoint; queued ones leave the queue.
      </Confirm>
    </Page>
  );
}
