import type { Sweep } from "../../api/types";
import { SectionHead } from "../../components/Page";
import { percent, plural } from "../../format/amount";
import classes from "./SweepPage.module.css";

/** At which steps members are compared, and how many of them went on. */
export function RungsCard({ sweep }: { sweep: Sweep }) {
  return (
    <section className={`card ${classes.card}`} aria-label="Early stops by rung">
      <SectionHead title="Early stops by rung" term="rung" />
      <ul className={classes.rungs}>
        {sweep.rungs.map((rung, index) => (
          <li key={rung.steps}>
            <span className={classes.rungHead}>
              <span>{plural(rung.steps, "step")}</span>
              <span className={classes.faint}>
                {index === sweep.rungs.length - 1
                  ? `${rung.reached} reached the end`
                  : `${rung.reached} reached, ${rung.kept} went on`}
              </span>
            </span>
            <span className={classes.track} aria-hidden="true">
              <span style={{ width: `${percent(rung.reached, sweep.members.total)}%` }} data-reached />
              <span style={{ width: `${percent(rung.kept, sweep.members.total)}%` }} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}
