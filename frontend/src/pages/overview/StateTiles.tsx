import { Skeleton } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { jobCountQuery, useFallbackInterval } from "../../api/queries";
import type { JobCount, JobState } from "../../api/types";
import { count, plural } from "../../format/amount";
import { useNow } from "../../components/now";
import classes from "./OverviewPage.module.css";

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

/** Jobs by state, the caller's own or all that may be seen; each number is a link to the list behind it. */
export function StateTiles({ mine }: { mine: boolean }) {
  const refetchInterval = useFallbackInterval();
  const minute = Math.floor(useNow() / MINUTE_MS) * MINUTE_MS;
  const open = useQuery({ ...jobCountQuery({ state: ["queued", "active"], mine }), refetchInterval }).data;
  const yesterday = new Date(minute - DAY_MS).toISOString();
  const ended = useQuery({
    ...jobCountQuery({ state: ["succeeded", "failed"], ended_after: yesterday, mine }),
    refetchInterval,
    placeholderData: keepPreviousData,
  }).data;

  const of = (counts: JobCount | undefined, state: JobState) =>
    counts && (counts.states.find((each) => each.state === state) ?? { jobs: 0, gpus: 0 });
  const [running, waiting] = [of(open, "active"), of(open, "queued")];
  const tiles = [
    { state: "active", name: "Running", found: running, sub: `on ${plural(running?.gpus ?? 0, "GPU")}` },
    { state: "queued", name: "Queued", found: waiting, sub: `for ${plural(waiting?.gpus ?? 0, "GPU")}` },
    { state: "succeeded", name: "Succeeded", found: of(ended, "succeeded"), sub: "in 24 hours" },
    { state: "failed", name: "Failed", found: of(ended, "failed"), sub: "in 24 hours" },
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
          {tile.found === undefined ? (
            <Skeleton width={44} height={28} my={5} />
          ) : (
            <span className={classes.count} data-zero={tile.found.jobs === 0 || undefined}>
              {count(tile.found.jobs)}
            </span>
          )}
          <span className={classes.tileSub}>{tile.sub}</span>
        </Link>
      ))}
    </section>
  );
}
