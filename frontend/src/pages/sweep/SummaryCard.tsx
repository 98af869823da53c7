import { Link } from "@tanstack/react-router";

import type { Sweep } from "../../api/types";
import { figure } from "../../components/charts/charts";
import { gpuHours } from "../../format/amount";
import { sentence } from "../../format/words";
import classes from "./SweepPage.module.css";
import { MEMBER_STATES, savedWords, valueWords } from "./words";

/** The best value, how far the members are, and what the sweep cost and saved. */
export function SummaryCard({ sweep }: { sweep: Sweep }) {
  const { best } = sweep;
  const states = MEMBER_STATES.filter(({ state }) => sweep.members[state] > 0);
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
      <div>
        <h2 className={classes.label}>Members</h2>
        <p className={classes.big}>{sweep.members.total}</p>
        <div className={classes.bar} aria-hidden="true">
          {states.map(({ state, colour }) => (
            <span key={state} style={{ flexGrow: sweep.members[state], background: colour }} />
          ))}
        </div>
        <ul className={classes.states}>
          {states.map(({ state, label, colour }) => (
            <li key={state}>
              <span className={classes.dot} style={{ background: colour }} aria-hidden="true" />
              {sweep.members[state]} {label.toLowerCase()}
            </li>
          ))}
        </ul>
      </div>
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
