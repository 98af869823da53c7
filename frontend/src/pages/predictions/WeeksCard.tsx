import type { WaitRecord } from "../../api/types";
import { SectionHead } from "../../components/Page";
import { Ago } from "../../components/Time";
import { count, plural } from "../../format/amount";
import table from "../fairness/FairnessPage.module.css";
import { lossWords, shareWords, weekName } from "./record";

const SOURCES = ["model", "forward", "combined"] as const;
const SOURCE_NAMES = { model: "Model", forward: "Forward", combined: "Combined" } as const;

type Figures = NonNullable<WaitRecord["total"]>;

/** All figures by week, with the losses of each source of forecasts beside each other. */
export function WeeksCard({ record }: { record: WaitRecord }) {
  const { weeks, total, trained_at: trainedAt } = record;
  return (
    <section className={`card ${table.card}`} aria-label="Waits by week">
      <SectionHead title="Waits by week" term="pinball">
        <span>
          {trainedAt === null ? (
            "No model is in use yet"
          ) : (
            <>
              Model of {plural(record.rows, "wait")}, trained <Ago at={trainedAt} />
            </>
          )}
        </span>
      </SectionHead>
      <p className={table.faint}>
        The pinball loss is that of the 10 %, 50 % and 90 % quantiles, in natural logarithms of minutes: less
        is better. <i>Model</i> learned from waits of the pool, <i>forward</i> is its policy run forward from
        the queue at that time, <i>combined</i> is what users are shown.
        {trainedAt === null ? " Until a model is trained, forward stands alone." : ""}
      </p>
      <div className={table.scroll} tabIndex={0} role="group" aria-label="Figures by week">
        <table className={table.table}>
          <thead>
            <tr>
              <th scope="col">Week of</th>
              {["Jobs", "Quick, forecast", "Quick, real", "Balanced accuracy", "In p90", "In 80 %"].map(
                (name) => (
                  <th key={name} scope="col" className={table.number}>
                    {name}
                  </th>
                ),
              )}
              {SOURCES.map((source) => (
                <th key={source} scope="col" className={table.number}>
                  {SOURCE_NAMES[source]}, loss
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {weeks.toReversed().map((week) => (
              <Row key={week.begins} name={weekName(week.begins)} figures={week} />
            ))}
          </tbody>
          {total === null ? null : (
            <tbody>
              <Row name="All weeks" figures={total} />
            </tbody>
          )}
        </table>
      </div>
    </section>
  );
}

function Row({ name, figures }: { name: string; figures: Figures }) {
  const shares = [
    figures.quick_expected,
    figures.quick_real,
    figures.balanced_accuracy,
    figures.p90_coverage,
    figures.two_sided_coverage,
  ];
  return (
    <tr>
      <th scope="row">{name}</th>
      <td className={table.number}>{count(figures.jobs)}</td>
      {shares.map((share, index) => (
        <td key={index} className={table.number}>
          {shareWords(share)}
        </td>
      ))}
      {SOURCES.map((source) => (
        <td key={source} className={table.number}>
          {lossWords(figures.pinball[source])}
        </td>
      ))}
    </tr>
  );
}
