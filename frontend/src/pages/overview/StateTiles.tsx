import { Skeleton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { someJobsQuery, useFallbackInterval } from "../../api/queries";
import type { Job, JobState, Page } from "../../api/types";
import { plural } from "../../format/amount";
import { useNow } from "../../components/now";
import classes from "./OverviewPage.module.css";

const MOST = 200;
const DAY_MS = 86_400_000;

/** What a tile says of the jobs that were found; a full page may stand for more. */
function tally(page: Page<Job> | undefined, keep: (job: Job) => boolean = () => true) {
  const jobs = page?.results.filter(keep) ?? [];
  return {
    count: jobs.length,
    more: page?.next != null,
    gpus: jobs.reduce((sum, job) => sum + job.gpus_total, 0),
  };
}

/** Jobs by state, the caller's own or all that may be seen; each number is a link to the list behind it. */
export function StateTiles({ mine }: { mine: boolean }) {
  const refetchInterval = useFallbackInterval();
  const minute = Math.floor(useNow() / 60_000) * 60_000;
  const of = (state: JobState) => someJobsQuery({ state, mine, limit: MOST });
  const active = useQuery({ ...of("active"), refetchInterval });
  const queued = useQuery({ ...of("queued"), refetchInterval });
  const succeeded = useQuery({ ...of("succeeded"), refetchInterval });
  const failed = useQuery({ ...of("failed"), refetchInterval });
  const today = (job: Job) => job.ended_at !== null && minute - new Date(job.ended_at).getTime() < DAY_MS;

  const running = tally(active.data);
  const waiting = tally(queued.data);
  const tiles = [
    {
      state: "active",
      name: "Running",
      data: active.data,
      ...running,
      sub: `on ${plural(running.gpus, "GPU")}`,
    },
    {
      state: "queued",
      name: "Queued",
      data: queued.data,
      ...waiting,
      sub: `for ${plural(waiting.gpus, "GPU")}`,
    },
    {
      state: "succeeded",
      name: "Succeeded",
      data: succeeded.data,
      ...tally(succeeded.data, today),
      sub: "in 24 hours",
    },
    { state: "failed", name: "Failed", data: failed.data, ...tally(failed.data, today), sub: "in 24 hours" },
  ];

  return (
    <section className={`card ${classes.tiles}`} aria-label={mine ? "My jobs by state" : "All jobs by state"}>
      {tiles.map((tile) => (
        <Link
          key={tile.state}
          to="/jobs"
          search={{ state: tile.state, ...(mine && { mine: "1" }) }}
          className={classes.tile}
        >
          <span className={classes.tileName}>
            <span className={classes.dot} style={{ background: `var(--${tile.state})` }} aria-hidden="true" />
            {tile.name}
          </span>
          {tile.data === undefined ? (
            <Skeleton width={44} height={28} my={5} />
          ) : (
            <span className={classes.count} data-zero={tile.count === 0 || undefined}>
              {tile.count}
              {tile.more && tile.count >= MOST ? "+" : ""}
            </span>
          )}
          <span className={classes.tileSub}>{tile.sub}</span>
        </Link>
      ))}
    </section>
  );
}
