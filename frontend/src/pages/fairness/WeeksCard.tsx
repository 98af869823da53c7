import type { RhoFigures } from "../../api/types";
import { SectionHead } from "../../components/Page";
import { plural } from "../../format/amount";
import { dateOnly } from "../../format/time";
import classes from "./FairnessPage.module.css";
import { barOf, byTenant, byWeek, paysWords, rhoWords, type Figures } from "./rho";

/** Who pays for whom: how much slower the applications of each tenant were than on its own quota, and each week. */
export function WeeksCard({
  tenants: byName,
  weeks,
  days,
  now = [],
  title = "Who pays for whom",
}: {
  tenants: readonly (RhoFigures & { tenant: string | null })[];
  weeks: readonly (RhoFigures & { week: string | null })[];
  days: number;
  now?: readonly (RhoFigures & { tenant: string | null })[];
  title?: string;
}) {
  const tenants = byTenant(byName);
  const live = byTenant(now);
  return (
    <section className={`card ${classes.card}`} aria-label={title}>
      <SectionHead title={title} term="rho">
        <span>Ended in the last {plural(days, "day")}</span>
      </SectionHead>
      <p className={tenants.length === 0 ? classes.faint : classes.pays}>
        {tenants.length === 0 ? "No job or sweep with GPUs has ended in this time." : paysWords(tenants)}
      </p>
      {tenants.length + live.length > 0 && (
        <>
          <p className={classes.faint}>
            ρ is the time from submission to end, divided by the time on an equal part of the own quota; a run
            time of less than a minute counts as a minute. A sweep counts as one job.
          </p>
          <div className={classes.scroll} tabIndex={0} role="group" aria-label="ρ by tenant and week">
            <table className={classes.table}>
              <thead>
                <tr>
                  <th scope="col">Tenant or week</th>
                  <th scope="col" className={classes.number}>
                    Median ρ
                  </th>
                  <th scope="col" className={classes.number}>
                    Mean ρ
                  </th>
                  <th scope="col" className={classes.number}>
                    Largest ρ
                  </th>
                  <th scope="col" className={classes.number}>
                    Jobs
                  </th>
                  <th scope="col" className={classes.wide}>
                    Faster or slower than that
                  </th>
                </tr>
              </thead>
              <tbody>
                {tenants.map((each) => (
                  <FiguresRow key={each.name} name={each.name} figures={each} />
                ))}
              </tbody>
              <tbody>
                {live.map((each) => (
                  <FiguresRow key={each.name} name={`${each.name}, live, as it stands`} figures={each} />
                ))}
              </tbody>
              <tbody>
                {byWeek(weeks).map((each) => (
                  <FiguresRow key={each.name} name={`Week of ${dateOnly(each.name)}`} figures={each} />
                ))}
              </tbody>
            </table>
          </div>
        </>
      )}
    </section>
  );
}

function FiguresRow({ name, figures }: { name: string; figures: Figures }) {
  const { side, share } = barOf(figures.median);
  return (
    <tr>
      <th scope="row">{name}</th>
      <td className={classes.number}>{rhoWords(figures.median)}</td>
      <td className={classes.number}>{rhoWords(figures.mean)}</td>
      <td className={classes.number}>{rhoWords(figures.max)}</td>
      <td className={classes.number}>{figures.applications}</td>
      <td className={classes.wide}>
        <span className={classes.bar} aria-hidden="true">
          <span data-side={side} style={{ width: `${50 * share}%` }} />
        </span>
      </td>
    </tr>
  );
}
