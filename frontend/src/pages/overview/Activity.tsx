import { Button, Skeleton } from "@mantine/core";
import { IconBolt } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import { someJobsQuery, useFallbackInterval } from "../../api/queries";
import type { Job } from "../../api/types";
import { groupOf, rowKey, waits } from "../../components/groups";
import { Empty, Failed } from "../../components/Notice";
import { SectionHead } from "../../components/Page";
import { toneOf, toneStyle, type Tone } from "../../components/StateChip";
import { Ago } from "../../components/Time";
import { happenings } from "./activity";
import classes from "./OverviewPage.module.css";

const SHOWN = 12;

/** What happened last to the caller's jobs, or to all that may be seen. */
export function ActivityCard({ mine }: { mine: boolean }) {
  const query = useQuery({
    ...someJobsQuery({ mine, members: false }, 50),
    refetchInterval: useFallbackInterval(),
  });
  const items = query.data === undefined ? [] : happenings(query.data.results, SHOWN, !mine);
  return (
    <section className={`card ${classes.card}`} aria-label="Recent activity">
      <SectionHead title="Recent activity">
        <Link to="/jobs" search={mine ? { mine: "1" } : {}} className="link">
          {mine ? "All my jobs" : "All jobs"}
        </Link>
      </SectionHead>
      {query.isPending ? (
        Array.from({ length: 6 }, (_, index) => <Skeleton key={index} height={16} my={18} />)
      ) : query.data === undefined ? (
        <Failed error={query.error} onRetry={() => void query.refetch()} />
      ) : items.length === 0 ? (
        <Empty
          icon={<IconBolt size={20} />}
          title="Nothing has happened yet"
          action={<Button renderRoot={(props) => <Link to="/submit" {...props} />}>Submit a job</Button>}
        >
          Starts, ends and failures of {mine ? "your jobs" : "jobs"} are listed here.
        </Empty>
      ) : (
        <ul className={classes.list}>
          {items.map(({ job, at, verb, detail }) => (
            <li key={rowKey(job)} className={classes.item}>
              <RowLink job={job}>
                <span className={classes.itemDot} style={toneStyle(rowTone(job))} aria-hidden="true" />
                <span className={`${classes.what} truncate`}>
                  <strong>{job.name}</strong> <span className={classes.verb}>{verb}</span>
                </span>
                <span className={classes.when}>
                  <Ago at={at} />
                </span>
                <span className={classes.detail}>{detail}</span>
              </RowLink>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function RowLink({ job, children }: { job: Job; children: ReactNode }) {
  const group = groupOf(job);
  return group === null ? (
    <Link to="/jobs/$jobId" params={{ jobId: String(job.id) }} className={classes.itemLink}>
      {children}
    </Link>
  ) : (
    <Link to="/sweeps/$sweepId" params={{ sweepId: String(group.id) }} className={classes.itemLink}>
      {children}
    </Link>
  );
}

function rowTone(job: Job): Tone {
  const group = groupOf(job);
  if (group === null) return toneOf(job.state);
  return waits(group.state, group.progress.running) ? "queued" : toneOf(group.state);
}
