import { Button, Skeleton } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";

import { jobEventsQuery, useFallbackInterval } from "../../api/queries";
import { Failed } from "../../components/Notice";
import { toneOf, toneStyle } from "../../components/StateChip";
import { Time } from "../../components/Time";
import { eventFacts, eventWords } from "./events";
import classes from "./EventsTab.module.css";

/** Everything that happened to the job, in order, and who did it. */
export function EventsTab({ jobId }: { jobId: number }) {
  const query = useInfiniteQuery({ ...jobEventsQuery(jobId), refetchInterval: useFallbackInterval() });
  if (query.isPending) return <Skeleton height={160} radius={12} />;
  if (query.data === undefined) return <Failed error={query.error} onRetry={() => void query.refetch()} />;
  const events = query.data.pages.flatMap((page) => page.results);
  return (
    <section className={`card ${classes.card}`} aria-label="Events">
      <ol>
        {events.map((event) => (
          <li key={event.id} className={classes.event}>
            <span
              className={classes.dot}
              style={toneStyle(toneOf(event.kind.split(".")[1] ?? ""))}
              aria-hidden="true"
            />
            <span className={classes.what}>{eventWords(event.kind)}</span>
            <span className={classes.facts}>
              {eventFacts(event).map((fact) => (
                <span key={fact.name}>
                  <span className={classes.key}>{fact.name}</span> {fact.value}
                </span>
              ))}
            </span>
            <span className={classes.actor}>{event.actor}</span>
            <Time at={event.at} className={classes.at} />
          </li>
        ))}
      </ol>
      {query.hasNextPage ? (
        <div className={classes.more}>
          <Button
            size="xs"
            variant="default"
            loading={query.isFetchingNextPage}
            onClick={() => void query.fetchNextPage()}
          >
            Later events
          </Button>
        </div>
      ) : null}
    </section>
  );
}
