import { useQuery } from "@tanstack/react-query";

import { jobDelaysQuery, useFallbackInterval } from "../../api/queries";
import type { Attempt, Job } from "../../api/types";
import { useNow } from "../../components/now";
import { Time } from "../../components/Time";
import { longestFirst } from "../../format/delays";
import { fineDuration, secondsBetween } from "../../format/time";
import { timelineOf, type Phase } from "./timeline";
import classes from "./TimelineCard.module.css";

function PhaseTime({ phase }: { phase: Phase }) {
  const now = useNow();
  if (phase.from === null) return <span className={classes.none}>–</span>;
  const seconds = secondsBetween(phase.from, phase.to ?? now);
  return (
    <span className={classes.took}>
      {phase.to === null ? fineDuration(Math.floor(seconds)) : fineDuration(seconds)}
    </span>
  );
}

/** The wait for the newest attempt, or for the next one, by its delays. */
function Waits({ job }: { job: Job }) {
  const query = useQuery({ ...jobDelaysQuery(job.id), refetchInterval: useFallbackInterval() });
  const wait = query.data?.waits.at(-1);
  const parts = wait === undefined ? [] : longestFirst(wait);
  if (parts.length === 0) return null;
  return (
    <dl className={classes.delays} aria-label={wait?.attempt === null ? "It waits for" : "It waited for"}>
      {parts.map(({ label, colour, seconds }) => (
        <div key={label}>
          <dt>
            <span className={classes.colour} style={{ background: colour }} aria-hidden="true" />
            {label}
          </dt>
          <dd>{fineDuration(seconds)}</dd>
        </div>
      ))}
    </dl>
  );
}

/** From submission to end, with how long each phase took. */
export function TimelineCard({ job, attempts }: { job: Job; attempts: readonly Attempt[] }) {
  const { moments, phases } = timelineOf(job, attempts);
  return (
    <section className={`card ${classes.card}`} aria-label="Timeline">
      <ol className={classes.track}>
        {moments.map((moment, index) => {
          const phase = phases[index];
          const last = index === moments.length - 1;
          return (
            <li key={moment.name} className={classes.step} data-last={last || undefined}>
              <div className={classes.moment}>
                <span
                  className={classes.dot}
                  data-reached={moment.at !== null || undefined}
                  data-state={last && moment.at !== null ? job.state : undefined}
                  aria-hidden="true"
                />
                <span className={classes.momentName} data-todo={moment.at === null || undefined}>
                  {last && moment.at === null ? "Ended" : moment.name}
                </span>
                {moment.at === null ? (
                  <span className={classes.none}>–</span>
                ) : (
                  <Time at={moment.at} form="clock" className={classes.at} />
                )}
              </div>
              {phase === undefined ? null : (
                <div className={classes.phase} data-status={phase.status} data-phase={phase.name}>
                  <span className={classes.line} aria-hidden="true" />
                  <span className={classes.phaseName}>{phase.name}</span>
                  <PhaseTime phase={phase} />
                </div>
              )}
            </li>
          );
        })}
      </ol>
      <Waits job={job} />
    </section>
  );
}
