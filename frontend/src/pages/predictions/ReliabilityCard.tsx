import { SectionHead } from "../../components/Page";
import type { WaitRecord } from "../../api/types";
import { plural } from "../../format/amount";
import classes from "./PredictionsPage.module.css";
import { reliabilityWords, shareWords } from "./record";

const TICKS = [0, 0.25, 0.5, 0.75, 1];
/** Diameters of the marks in pixels, by the number of jobs. */
const MIN_MARK = 9;
const MAX_MARK = 26;

/** Probabilities of a quick start against the part of jobs that had one; right ones lie on the diagonal. */
export function ReliabilityCard({ bins }: { bins: WaitRecord["reliability"] }) {
  const most = Math.max(1, ...bins.map(({ jobs }) => jobs));
  const size = (jobs: number): number => MIN_MARK + (MAX_MARK - MIN_MARK) * Math.sqrt(jobs / most);
  return (
    <section className={`card ${classes.card}`} aria-label="Quick starts">
      <SectionHead title="Quick starts, forecast against real" term="quickStart">
        <span>Size of a mark: jobs</span>
      </SectionHead>
      <figure className={classes.reliability}>
        <figcaption className="sr-only">{reliabilityWords(bins)}</figcaption>
        <div className={classes.square} aria-hidden="true">
          {TICKS.map((tick) => (
            <span key={tick}>
              <i className={classes.across} style={{ bottom: `${100 * tick}%` }}>
                <b>{shareWords(tick)}</b>
              </i>
              <i className={classes.up} style={{ left: `${100 * tick}%` }}>
                <b>{shareWords(tick)}</b>
              </i>
            </span>
          ))}
          <svg viewBox="0 0 100 100" preserveAspectRatio="none">
            <line x1="0" y1="100" x2="100" y2="0" />
            <polyline
              points={bins.map(({ expected, real }) => `${100 * expected},${100 - 100 * real}`).join(" ")}
            />
          </svg>
          {bins.map(({ begins, expected, real, jobs }) => (
            <span
              key={begins}
              className={classes.mark}
              style={{
                left: `${100 * expected}%`,
                bottom: `${100 * real}%`,
                width: size(jobs),
                height: size(jobs),
              }}
              title={`${plural(jobs, "job")}: ${shareWords(expected)} forecast, ${shareWords(real)} real`}
            />
          ))}
        </div>
        <p className={classes.axis} aria-hidden="true">
          Forecast probability of a start within 10 minutes; upwards the part of jobs that did start so
        </p>
      </figure>
    </section>
  );
}
