import { useState } from "react";

import classes from "./ShareLines.module.css";

export interface ShareLine {
  label: string;
  colour: string;
  /** Shares from 0 to 1, one for each place on the axis; null where there is none. */
  values: readonly (number | null)[];
  /** The share that would be right, drawn as a dashed line. */
  goal: number;
}

interface Props {
  lines: readonly ShareLine[];
  /** The places on the axis from left to right. */
  places: readonly { label: string; title: string }[];
  /** The chart in a sentence, for those who cannot see it. */
  words: string;
}

const MAX_LABELS = 8;
/** The axis begins here unless a value is lower. */
const FLOOR = 0.5;
const STEP = 0.1;

const perCent = (share: number): string => `${Math.round(100 * share)} %`;

/** Shares over time, each beside its goal. Lines are stretched with the page, and marks are boxes above them. */
export function ShareLines({ lines, places, words }: Props) {
  const [shown, setShown] = useState<number | null>(null);
  const known = lines.flatMap(({ values }) => values.filter((value) => value !== null));
  const floor = Math.min(FLOOR, Math.floor(Math.min(...known, 1) / STEP) * STEP);
  const height = (share: number): number => (100 * (share - floor)) / (1 - floor);
  const across = (index: number): number => (100 * (index + 0.5)) / places.length;
  const every = Math.ceil(places.length / MAX_LABELS);
  const place = shown === null ? undefined : places[shown];
  return (
    <figure className={classes.figure}>
      <figcaption className="sr-only">{words}</figcaption>
      <div className={classes.plot} aria-hidden="true" onPointerLeave={() => setShown(null)}>
        {[1, (1 + floor) / 2, floor].map((share) => (
          <div key={share} className={classes.line} style={{ bottom: `${height(share)}%` }}>
            <span>{perCent(share)}</span>
          </div>
        ))}
        <svg className={classes.canvas} viewBox="0 0 100 100" preserveAspectRatio="none">
          {lines.map(({ label, colour, values, goal }) => (
            <g key={label} stroke={colour}>
              <line
                className={classes.goal}
                x1="0"
                x2="100"
                y1={100 - height(goal)}
                y2={100 - height(goal)}
              />
              {runsOf(values).map((run) => (
                <polyline
                  key={run[0]?.index}
                  className={classes.course}
                  points={run.map(({ index, value }) => `${across(index)},${100 - height(value)}`).join(" ")}
                />
              ))}
            </g>
          ))}
        </svg>
        {places.map((each, index) => (
          <div
            key={each.title}
            className={classes.slot}
            data-on={shown === index || undefined}
            style={{ left: `${(100 * index) / places.length}%`, width: `${100 / places.length}%` }}
            onPointerEnter={() => setShown(index)}
          >
            {lines.map(({ label, colour, values }) => {
              const value = values[index];
              return value === null || value === undefined ? null : (
                <span
                  key={label}
                  className={classes.mark}
                  style={{ bottom: `${height(value)}%`, background: colour }}
                />
              );
            })}
            {(places.length - 1 - index) % every === 0 ? (
              <span
                className={classes.label}
                data-second={((places.length - 1 - index) / every) % 2 === 1 || undefined}
              >
                {each.label}
              </span>
            ) : null}
          </div>
        ))}
        {place === undefined || shown === null ? null : (
          <div
            className={classes.tip}
            style={
              shown < places.length / 2
                ? { left: `calc(${(100 * (shown + 1)) / places.length}% + 6px)` }
                : { right: `calc(${100 - (100 * shown) / places.length}% + 6px)` }
            }
          >
            <div className={classes.when}>{place.title}</div>
            {lines.map(({ label, colour, values }) => {
              const value = values[shown];
              return (
                <div key={label} className={classes.row}>
                  <span className={classes.dot} style={{ background: colour }} />
                  {label}
                  <b>{value === null || value === undefined ? "–" : perCent(value)}</b>
                </div>
              );
            })}
          </div>
        )}
      </div>
      <ul className={classes.legend} aria-hidden="true">
        {lines.map(({ label, colour, goal }) => (
          <li key={label}>
            <span className={classes.dot} style={{ background: colour }} />
            {label}, goal {perCent(goal)}
          </li>
        ))}
      </ul>
    </figure>
  );
}

interface Point {
  index: number;
  value: number;
}

/** The values without a gap between them, as lines that can be drawn. */
function runsOf(values: readonly (number | null)[]): Point[][] {
  const runs: Point[][] = [];
  for (const [index, value] of values.entries()) {
    if (value === null) continue;
    const last = runs.at(-1);
    if (last?.at(-1)?.index === index - 1) last.push({ index, value });
    else runs.push([{ index, value }]);
  }
  return runs;
}
