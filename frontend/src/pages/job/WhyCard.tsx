import { Skeleton } from "@mantine/core";
import { IconBulb, IconHourglassHigh } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Fragment } from "react";

import { METRICS_POLL_MS, whyQuery } from "../../api/queries";
import type { Job, Why } from "../../api/types";
import { Fact, Facts } from "../../components/Fact";
import { Meter } from "../../components/Meter";
import { Failed } from "../../components/Notice";
import { useNow } from "../../components/now";
import { ordinal, plural } from "../../format/amount";
import { timesInWords } from "../../format/time";
import { holdWords, sentence } from "../../format/words";
import { quotaOf, readings } from "./evidence";
import { StartForecast } from "./StartForecast";
import classes from "./WhyCard.module.css";

function Holder({ holder, job }: { holder: Why["holders"][number]; job: Job }) {
  const more = holder.jobs_total - holder.jobs.length;
  const theirs = { owner: holder.owner, tenant: job.tenant, vc: job.vc, state: "active" };
  return (
    <li>
      <Link to="/jobs" search={theirs} className="link">
        {holder.owner}
      </Link>{" "}
      has {plural(holder.gpus, "GPU")}:{" "}
      {holder.jobs.map((each, index) => (
        <Fragment key={each.id}>
          {index === 0 ? "" : ", "}
          <Link to="/jobs/$jobId" params={{ jobId: String(each.id) }} className="link">
            {each.name}
          </Link>{" "}
          ({each.gpus})
        </Fragment>
      ))}
      {more > 0 ? (
        <>
          {" and "}
          <Link to="/jobs" search={theirs} className="link">
            {plural(more, "more job", "more jobs")}
          </Link>
        </>
      ) : null}
    </li>
  );
}

/** Why a job waits in the queue or in screening: one reason, the evidence for it, and what would help. */
export function WhyCard({ job }: { job: Job }) {
  // No event tells of numbers that move while the reason stays.
  const query = useQuery({ ...whyQuery(job.id), refetchInterval: METRICS_POLL_MS });
  const now = useNow();
  const names = [job.vc, job.tenant, job.name];
  const why = query.data;
  if (query.isPending) return <Skeleton height={132} radius={12} />;
  if (why === undefined) {
    return (
      <div className="card">
        <Failed error={query.error} onRetry={() => void query.refetch()} />
      </div>
    );
  }
  const quota = quotaOf(why.evidence);
  const facts = readings(why.evidence, now);
  const position = why.position ?? job.position;
  const question = job.state === "active" ? "What is it doing?" : "Why is it waiting?";
  return (
    <section className={`card ${classes.card}`} aria-label={question}>
      <div className={classes.head}>
        <span className={classes.icon} aria-hidden="true">
          <IconHourglassHigh size={18} stroke={1.8} />
        </span>
        <div className={classes.words}>
          <h2 className={classes.title}>
            <span className={classes.question}>{question}</span>{" "}
            {why.reason === null ? "It was not looked at yet" : holdWords(why.reason)}
          </h2>
          <p className={classes.detail}>
            {why.detail === ""
              ? "The next scheduling cycle decides within a few seconds."
              : sentence(timesInWords(why.detail, now), names)}
          </p>
        </div>
        {position === null ? null : (
          <div className={classes.place}>
            <strong>{ordinal(position)}</strong>
            <Link to="/vcs/$name/queue" params={{ name: job.vc }} className="link">
              in {job.vc}
            </Link>
          </div>
        )}
      </div>
      <StartForecast job={job} />
      {quota === null && facts.length === 0 ? null : (
        <div className={classes.evidence}>
          {quota === null ? null : (
            <div className={classes.meter}>
              <Meter
                label="Quota in use"
                name="Quota in use"
                used={quota.used}
                total={quota.quota}
                warnFull
              />
            </div>
          )}
          <Facts>
            {facts.map((fact) => (
              <Fact key={fact.name} name={fact.name}>
                <span className="tabular">{fact.value}</span>
              </Fact>
            ))}
          </Facts>
        </div>
      )}
      {why.holders.length === 0 ? null : (
        <div className={classes.holders}>
          <h3 className={classes.helpsTitle}>Who has the GPUs of {job.vc}</h3>
          <ul>
            {why.holders.map((holder) => (
              <Holder key={holder.owner} holder={holder} job={job} />
            ))}
          </ul>
        </div>
      )}
      {why.helps.length === 0 ? null : (
        <div className={classes.helps}>
          <IconBulb size={17} stroke={1.8} aria-hidden="true" />
          <div>
            <h3 className={classes.helpsTitle}>What would help</h3>
            <ul>
              {why.helps.map((help) => (
                <li key={help}>{sentence(help, names)}</li>
              ))}
            </ul>
          </div>
        </div>
      )}
    </section>
  );
}
