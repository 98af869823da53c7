import { useState } from "react";

import classes from "./StackedBars.module.css";

export interface Stack {
  label: string;
  /** What is shown above the parts when it is pointed at. */
  title: string;
  parts: readonly number[];
}

interface Props {
  stacks: readonly Stack[];
  /** What the parts are, from the bottom up, and their colours. */
  series: readonly { label: string; colour: string }[];
  ceiling: number;
  format: (value: number) => string;
  /** The chart in a sentence, for who cannot see it. */
  words: string;
}

/** Labels that fit below the bars. */
const MAX_LABELS = 10;

/** Bars that stand side by side, each of parts. They are boxes of the page, so that no library is loaded for them. */
export function StackedBars({ stacks, series, ceiling, format, words }: Props) {
  const [shown, setShown] = useState<number | null>(null);
  const every = Math.ceil(stacks.length / MAX_LABELS);
  const stack = shown === null ? undefined : stacks[shown];
  return (
    <figure className={classes.figure}>
      <figcaption className="sr-only">{words}</figcaption>
      <div className={classes.plot} aria-hidden="true" onPointerLeave={() => setShown(null)}>
        {[1, 0.5, 0].map((share) => (
          <div key={share} className={classes.line} style={{ bottom: `${100 * share}%` }}>
            <span>{format(ceiling * share)}</span>
          </div>
        ))}
        <div className={classes.bars}>
          {stacks.map((each, index) => (
            <div
              key={each.label}
              className={classes.slot}
              data-on={shown === index || undefined}
              onPointerEnter={() => setShown(index)}
            >
              <div className={classes.bar}>
                {each.parts.map((value, part) =>
                  value > 0 ? (
                    <span
                      key={series[part]?.label ?? part}
                      style={{ height: `${(100 * value) / ceiling}%`, background: series[part]?.colour }}
                    />
                  ) : null,
                )}
              </div>
              {(stacks.length - 1 - index) % every === 0 ? (
                <span
                  className={classes.label}
                  data-second={((stacks.length - 1 - index) / every) % 2 === 1 || undefined}
                >
                  {each.label}
                </span>
              ) : null}
            </div>
          ))}
        </div>
        {stack === undefined || shown === null ? null : (
          <div
            className={classes.tip}
            style={
              shown < stacks.length / 2
                ? { left: `calc(${(100 * (shown + 1)) / stacks.length}% + 6px)` }
                : { right: `calc(${100 - (100 * shown) / stacks.length}% + 6px)` }
            }
          >
            <div className={classes.when}>{stack.title}</div>
            {series.map(({ label, colour }, part) =>
              (stack.parts[part] ?? 0) > 0 ? (
                <div key={label} className={classes.row}>
                  <span className={classes.dot} style={{ background: colour }} />
                  {label}
                  <b>{format(stack.parts[part] ?? 0)}</b>
                </div>
              ) : null,
            )}
            {stack.parts.every((value) => value <= 0) ? <div className={classes.row}>Nothing</div> : null}
          </div>
        )}
      </div>
      <ul className={classes.legend} aria-hidden="true">
        {series.map(({ label, colour }) => (
          <li key={label}>
            <span className={classes.dot} style={{ background: colour }} />
            {label}
          </li>
        ))}
      </ul>
    </figure>
  );
}
