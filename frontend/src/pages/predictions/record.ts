/** From the record of predictions as the server tells it to what the page shows: shares, factors and sentences. */
import type { RunTimeRecord, WaitRecord } from "../../api/types";
import { plural } from "../../format/amount";
import { duration } from "../../format/time";

/** The parts of jobs that intervals promise to hold. */
export const P90_GOAL = 0.9;
export const INTERVAL_GOAL = 0.8;

/** How many weeks the page looks back. */
export const SPANS = [4, 12, 26] as const;

export const spanOf = (asked: string | undefined): number =>
  SPANS.find((weeks) => String(weeks) === asked) ?? SPANS[1];

/** `83 %`, or a dash where no job gives the share. */
export const shareWords = (share: number | null): string =>
  share === null ? "–" : `${Math.round(100 * share)} %`;

/** A mean loss, such as `0.42`. */
export const lossWords = (loss: number | null): string => (loss === null ? "–" : loss.toFixed(2));

/** A factor between what was expected and what it took, such as `1.3 ×`. */
export const factorWords = (factor: number | null): string =>
  factor === null ? "–" : `${Number(factor.toPrecision(2))} ×`;

const short = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", timeZone: "UTC" });

/** The Monday of a week as an axis or a row names it: `23 Nov`. */
export const weekName = (begins: string): string => short.format(new Date(begins)).replace(" ", "\u00a0");

/** How far a share of jobs may be from its goal before the page calls it off. */
const TOLERANCE = 0.05;
export const isOff = (share: number | null, goal: number): boolean =>
  share !== null && Math.abs(share - goal) > TOLERANCE;

/** What a reader learns from the diagram of quick starts. */
export function reliabilityWords(bins: WaitRecord["reliability"]): string {
  const jobs = bins.reduce((sum, bin) => sum + bin.jobs, 0);
  if (jobs === 0) return "No forecast of a quick start has been judged.";
  const worst = bins.reduce((most, bin) => (gap(bin) > gap(most) ? bin : most));
  return (
    `Quick starts of ${plural(jobs, "job")}, in ${plural(bins.length, "group")} by their probability. ` +
    `The largest gap: of ${plural(worst.jobs, "job")} expected at ${shareWords(worst.expected)}, ` +
    `${shareWords(worst.real)} started within 10 minutes.`
  );
}

const gap = ({ expected, real }: WaitRecord["reliability"][number]): number => Math.abs(expected - real);

/** A chart of shares by week in a sentence. */
export function coverageWords(
  lines: readonly { label: string; values: readonly (number | null)[]; goal: number }[],
): string {
  return lines
    .map(({ label, values, goal }) => {
      const known = values.filter((value) => value !== null);
      return known.length === 0
        ? `${label}: no job gives it yet.`
        : `${label}: ${shareWords(Math.min(...known))} to ${shareWords(Math.max(...known))} by week, ` +
            `goal ${shareWords(goal)}.`;
    })
    .join(" ");
}

/** What was expected of a job that waited longer than that. */
export const missWords = (miss: WaitRecord["worst"][number]): string =>
  `waited ${duration(miss.waited_s)}; 90 % within ${duration(miss.expected_p90_s)} was forecast`;

/** How good the model of run times was on the newest runs, which it had not seen. */
export function modelWords(model: RunTimeRecord["model"]): string {
  if (model === null)
    return "Until enough jobs have ended for a model, rules estimate run times from the owner’s earlier jobs.";
  const { jobs, pinball_model: loss, pinball_last_two: lastTwo, coverage80, spearman } = model.scores;
  return (
    `On the newest ${plural(jobs, "run")}, which it had not seen: pinball loss ${lossWords(loss)} ` +
    `(by the owner’s last two runs ${lossWords(lastTwo)}), ${shareWords(coverage80)} in the 80 % interval, ` +
    `Spearman’s rank correlation ${lossWords(spearman)}.`
  );
}
