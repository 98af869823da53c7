import type { Attempt } from "../../api/types";
import { useNow } from "../../components/now";
import { plural } from "../../format/amount";
import { duration, secondsBetween } from "../../format/time";
import { gpusOf } from "./sizes";
import classes from "./SizesCard.module.css";

/** The sizes of a job that was resized, over time: one block for each attempt, as long as it lasted. */
export function SizesCard({ attempts }: { attempts: readonly Attempt[] }) {
  const now = useNow();
  const full = attempts.filter((attempt) => attempt.stage === "full");
  const largest = Math.max(...full.map(gpusOf));
  if (new Set(full.map(gpusOf)).size < 2) return null;
  return (
    <section className={`card ${classes.card}`} aria-label="Sizes over time">
      <h2 className={classes.title}>Sizes over time</h2>
      <ol className={classes.bar}>
        {full.map((attempt) => {
          const lasted = Math.max(0, secondsBetween(attempt.placed_at, attempt.ended_at ?? now));
          const words = `Attempt ${attempt.number}: ${plural(gpusOf(attempt), "GPU")} for ${duration(lasted)}`;
          return (
            <li
              key={attempt.number}
              title={words}
              className={classes.block}
              style={{ flexGrow: Math.max(lasted, 1) }}
            >
              <span className={classes.fill} style={{ height: `${(100 * gpusOf(attempt)) / largest}%` }} />
              <span className={classes.size} aria-hidden="true">
                {gpusOf(attempt)}
              </span>
              <span className="sr-only">{words}</span>
            </li>
          );
        })}
      </ol>
    </section>
  );
}
