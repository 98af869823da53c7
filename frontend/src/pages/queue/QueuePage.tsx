import { Button, Skeleton } from "@mantine/core";
import { IconChevronLeft, IconHourglassHigh, IconUser } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { vcsQuery } from "../../api/queries";
import type { Queue } from "../../api/types";
import { Empty, Failed } from "../../components/Notice";
import { Page, PageHeader } from "../../components/Page";
import { plural } from "../../format/amount";
import filters from "../jobs/Filters.module.css";
import classes from "./QueuePage.module.css";
import { QueueTable } from "./QueueTable";
import { useQueue } from "./useQueue";

const route = getRouteApi("/app/vcs/$name/queue");

/** All that waits in a virtual cluster, in the order of its policy. */
export function QueuePage() {
  const { name } = route.useParams();
  const vcs = useQuery(vcsQuery);
  const vc = vcs.data?.results.find((each) => each.name === name);
  return (
    <Page title={`Queue of ${name}`}>
      <Link to="/jobs" search={{ vc: name }} className={classes.back}>
        <IconChevronLeft size={15} aria-hidden="true" />
        Jobs
      </Link>
      {vc !== undefined ? (
        <Body id={vc.id} name={name} />
      ) : vcs.isPending ? (
        <Loading />
      ) : vcs.isError ? (
        <Failed error={vcs.error} onRetry={() => void vcs.refetch()} />
      ) : (
        <Empty icon={<IconHourglassHigh size={20} />} title={`There is no virtual cluster ${name}`} alone>
          The virtual cluster does not exist, or you may not see it.
        </Empty>
      )}
    </Page>
  );
}

const Loading = () => <Skeleton height={320} radius={12} aria-busy="true" aria-label="Loading the queue" />;

function subtitle(queue: Queue): string {
  const held = queue.held === 0 ? "" : `; ${plural(queue.held, "job")} held`;
  const planner = queue.planner === "" ? "" : `planner ${queue.planner}, `;
  return `${plural(queue.waiting, "job")} in the order of ${queue.policy} (${planner}pool ${queue.pool})${held}`;
}

function Body({ id, name }: { id: number; name: string }) {
  const mine = route.useSearch().mine === "1";
  const { query, jobs, exchange } = useQueue(id, mine);
  const queue = query.data?.pages[0];

  return (
    <>
      <PageHeader title={`Queue of ${name}`} sub={queue === undefined ? undefined : subtitle(queue)} />
      <div className={filters.bar}>
        <p className={classes.hint}>
          Your own jobs can be put in order; the jobs of others keep their places.
        </p>
        <Link
          to="/vcs/$name/queue"
          params={{ name }}
          search={mine ? {} : { mine: "1" }}
          className={filters.toggle}
          role="switch"
          aria-checked={mine}
          data-on={mine || undefined}
          aria-label="Only mine"
        >
          <IconUser size={15} stroke={1.8} />
          Mine
        </Link>
      </div>
      {query.isPending ? (
        <Loading />
      ) : queue === undefined ? (
        <div className="card">
          <Failed error={query.error} onRetry={() => void query.refetch()} />
        </div>
      ) : jobs.length === 0 ? (
        <div className="card">
          <Empty
            icon={<IconHourglassHigh size={20} />}
            title={mine ? "No job of yours waits" : "No job waits"}
          >
            Jobs that cannot start at once wait here.
          </Empty>
        </div>
      ) : (
        <>
          <QueueTable jobs={jobs} manages={queue.manages} onExchange={exchange} />
          {query.hasNextPage ? (
            <Button
              className={classes.more}
              variant="default"
              loading={query.isFetchingNextPage}
              onClick={() => void query.fetchNextPage()}
            >
              Show more
            </Button>
          ) : null}
        </>
      )}
    </>
  );
}
