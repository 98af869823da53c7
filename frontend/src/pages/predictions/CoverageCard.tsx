import type { WaitRecord } from "../../api/types";
import { ShareLines } from "../../components/charts/ShareLines";
import { SectionHead } from "../../components/Page";
import { dateOnly } from "../../format/time";
import classes from "./PredictionsPage.module.css";
import { coverageWords, INTERVAL_GOAL, P90_GOAL, weekName } from "./record";

/** By week: the parts of waits that were as long as their intervals promised. */
export function CoverageCard({ weeks }: { weeks: WaitRecord["weeks"] }) {
  const lines = [
    {
      label: "Within the p90",
      colour: "var(--chart-1)",
      values: weeks.map((week) => week.p90_coverage),
      goal: P90_GOAL,
    },
    {
      label: "Within the 80 % interval",
      colour: "var(--chart-3)",
      values: weeks.map((week) => week.two_sided_coverage),
      goal: INTERVAL_GOAL,
    },
  ];
  return (
    <section className={`card ${classes.card}`} aria-label="Coverage">
      <SectionHead title="Coverage of waits by week" term="coverage">
        <span>Weeks begin on Mondays, UTC</span>
      </SectionHead>
      <ShareLines
        lines={lines}
        places={weeks.map(({ begins }) => ({
          label: weekName(begins),
          title: `Week from ${dateOnly(begins)}`,
        }))}
        words={coverageWords(lines)}
      />
    </section>
  );
}
