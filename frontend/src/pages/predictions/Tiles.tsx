import type { WaitRecord } from "../../api/types";
import { plural } from "../../format/amount";
import insights from "../insights/InsightsPage.module.css";
import { INTERVAL_GOAL, isOff, P90_GOAL, shareWords } from "./record";

/** The figures of all weeks together. */
export function Tiles({ record: { total } }: { record: WaitRecord }) {
  if (total === null) return null;
  const tiles = [
    {
      name: "Started within 10 minutes",
      figure: total.quick_real,
      sub: `${shareWords(total.quick_expected)} expected, of ${plural(total.jobs, "job")}`,
    },
    {
      name: "Balanced accuracy",
      figure: total.balanced_accuracy,
      sub: "Of quick starts and others; 50 % is chance",
    },
    {
      name: "Waits within the p90",
      figure: total.p90_coverage,
      sub: `Goal ${shareWords(P90_GOAL)}`,
      bad: isOff(total.p90_coverage, P90_GOAL),
    },
    {
      name: "Waits within the 80 % interval",
      figure: total.two_sided_coverage,
      sub: `Goal ${shareWords(INTERVAL_GOAL)}, of waits forecast as long`,
      bad: isOff(total.two_sided_coverage, INTERVAL_GOAL),
    },
  ];
  return (
    <dl className={`card ${insights.tiles}`}>
      {tiles.map(({ name, figure, sub, bad }) => (
        <div key={name} className={insights.tile}>
          <dt>{name}</dt>
          <dd className={insights.figure} data-bad={bad === true || undefined}>
            {shareWords(figure)}
          </dd>
          <dd className={insights.tileSub}>{sub}</dd>
        </div>
      ))}
    </dl>
  );
}
