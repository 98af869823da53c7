import { IconHourglass } from "@tabler/icons-react";

import type { RunTimeRecord } from "../../api/types";
import { ShareLines } from "../../components/charts/ShareLines";
import { Empty } from "../../components/Notice";
import { SectionHead } from "../../components/Page";
import { Ago } from "../../components/Time";
import { count, plural } from "../../format/amount";
import { dateOnly } from "../../format/time";
import { sentence } from "../../format/words";
import table from "../fairness/FairnessPage.module.css";
import classes from "./PredictionsPage.module.css";
import {
  coverageWords,
  factorWords,
  INTERVAL_GOAL,
  lossWords,
  modelWords,
  shareWords,
  weekName,
} from "./record";

/** How right estimates of run times were, by the week in which the jobs ended. */
export function RunTimesCard({ record: { weeks, model, unknown } }: { record: RunTimeRecord }) {
  return (
    <section className={`card ${classes.card}`} aria-label="Run times">
      <SectionHead title="Run times, estimated against real" term="estimate">
        <span>
          {model === null ? (
            "No model is in use yet"
          ) : (
            <>
              Model {model.version} of {plural(model.rows, "run")}, trained <Ago at={model.trained_at} />
            </>
          )}
        </span>
      </SectionHead>
      <p className={classes.faint}>{modelWords(model)}</p>
      {weeks.length === 0 ? (
        <Empty icon={<IconHourglass size={20} />} title="No estimate of a run time can be judged yet">
          {unknown === "" ? "" : `${sentence(unknown)}. `}An estimate is judged when its job ends.
        </Empty>
      ) : (
        <div className={classes.columns}>
          <Chart weeks={weeks} />
          <Weeks weeks={weeks} />
        </div>
      )}
    </section>
  );
}

function Chart({ weeks }: { weeks: RunTimeRecord["weeks"] }) {
  const line = {
    label: "Within the 80 % interval",
    colour: "var(--chart-2)",
    values: weeks.map((week) => week.coverage80),
    goal: INTERVAL_GOAL,
  };
  return (
    <ShareLines
      lines={[line]}
      places={weeks.map(({ begins }) => ({
        label: weekName(begins),
        title: `Week from ${dateOnly(begins)}`,
      }))}
      words={coverageWords([line])}
    />
  );
}

function Weeks({ weeks }: { weeks: RunTimeRecord["weeks"] }) {
  return (
    <div className={table.scroll} tabIndex={0} role="group" aria-label="Run times by week">
      <table className={table.table}>
        <thead>
          <tr>
            <th scope="col">Week of</th>
            {["Jobs", "In 80 %", "Took, of p50", "Loss"].map((name) => (
              <th key={name} scope="col" className={table.number}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {weeks.toReversed().map((week) => (
            <tr key={week.begins}>
              <th scope="row">{weekName(week.begins)}</th>
              <td className={table.number}>{count(week.jobs)}</td>
              <td className={table.number}>{shareWords(week.coverage80)}</td>
              <td className={table.number}>{factorWords(week.median_ratio)}</td>
              <td className={table.number}>{lossWords(week.pinball)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
