import type { Attempt, Job } from "../../api/types";
import { useNow } from "../../components/now";
import { Time } from "../../components/Time";
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
    </section>
  );
}
