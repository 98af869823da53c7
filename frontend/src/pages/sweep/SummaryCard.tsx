import { Link } from "@tanstack/react-router";

import type { Sweep } from "../../api/types";
import { figure } from "../../components/charts/charts";
import { gpuHours } from "../../format/amount";
import { sentence } from "../../format/words";
import { MemberStates } from "./MemberStates";
import classes from "./SweepPage.module.css";
import { savedWords, valueWords } from "./words";

/** The best value, how far the members are, and what the sweep cost and saved. */
export function SummaryCard({ sweep }: { sweep: Sweep }) {
  const { best } = sweep;
  const saved = savedWords(sweep);
  return (
    <section className={`card ${classes.summary}`} aria-label="Summary">
      <div>
        <h2 className={classes.label}>Best {sweep.metric}</h2>
        {best === null ? (
          <p className={classes.faint}>No member has reported {sweep.metric} yet.</p>
        ) : (
          <>
            <p className={classes.big}>{figure(best.value)}</p>
            <p className={classes.faint}>
              <Link to="/jobs/$jobId" params={{ jobId: String(best.job) }} className="link">
                Member {best.member}
              </Link>
              {best.step === null ? null : `, at step ${best.step}`}
            </p>
            <dl className={classes.params}>
              {sweep.params.map((name) => (
                <div key={name}>
                  <dt>{name}</dt>
                  <dd>{best.params[name] === undefined ? "–" : valueWords(best.params[name])}</dd>
                </div>
              ))}
            </dl>
          </>
        )}
      </div>
      <MemberStates members={sweep.members} />
      <div>
        <h2 className={classes.label}>GPU-hours</h2>
        <p className={classes.big}>{gpuHours(sweep.gpu_hours)}</p>
        {saved === "" ? null : <p>{saved}</p>}
        {sweep.rho === null || (sweep.rho.quota ?? sweep.rho.cluster) === null ? null : (
          <p className={classes.faint}>{sentence(sweep.rho.sentence)}</p>
        )}
      </div>
    </section>
  );
}
