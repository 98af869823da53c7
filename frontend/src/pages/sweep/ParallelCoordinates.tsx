import { useElementSize } from "@mantine/hooks";
import { useMemo, type PointerEvent } from "react";

import type { Sweep, SweepMember } from "../../api/types";
import { figure } from "../../components/charts/charts";
import { plural } from "../../format/amount";
import { axesOf, BANDS, linesOf, nearest, type Axis, type MemberLine } from "./parallel";
import classes from "./ParallelCoordinates.module.css";
import { memberWords, paramWords } from "./words";

const HEIGHT = 300;
const TOP = 34;
const BOTTOM = 16;
const SIDE = 44;
const MIN_GAP = 96;
/** A line this far from the pointer, as a share of the height, is not meant. */
const REACH = 0.06;
/** From this number of lines on they cover each other, and are drawn thinner. */
const CROWD = 200;

interface Props {
  sweep: Sweep;
  members: readonly SweepMember[];
  /** The index of the member that is looked at, here or in the table. */
  hot: number | null;
  onHot: (member: number | null) => void;
  onPick: (member: number) => void;
}

/** Every member as a line through its parameters to its value. The table beside it holds the same for readers. */
export function ParallelCoordinates({ sweep, members, hot, onHot, onPick }: Props) {
  const { ref, width: seen } = useElementSize();
  const axes = useMemo(() => axesOf(sweep, members), [sweep, members]);
  const lines = useMemo(() => linesOf(sweep, axes, members), [sweep, axes, members]);
  const width = Math.max(seen === 0 ? 720 : seen, 2 * SIDE + MIN_GAP * (axes.length - 1));
  const gap = (width - 2 * SIDE) / Math.max(1, axes.length - 1);
  const paths = useMemo(() => pathsOf(lines, gap), [lines, gap]);
  const best = lines.find((line) => line.member.member === sweep.best?.member);
  const looked = lines.find((line) => line.member.member === hot);

  const at = (event: PointerEvent<SVGSVGElement>): MemberLine | null => {
    const box = event.currentTarget.getBoundingClientRect();
    const x = (event.clientX - box.left - SIDE) / gap;
    const y = 1 - (event.clientY - box.top - TOP) / (HEIGHT - TOP - BOTTOM);
    return nearest(lines, Math.min(Math.max(x, 0), axes.length - 1.001), y, REACH);
  };

  return (
    <figure className={classes.figure}>
      <figcaption className="sr-only">{sentence(sweep, members)}</figcaption>
      <div
        className={classes.scroll}
        ref={ref}
        tabIndex={0}
        role="group"
        aria-label="Parameters and metric of the members"
      >
        <svg
          className={classes.plot}
          width={width}
          height={HEIGHT}
          aria-hidden="true"
          data-crowd={lines.length > CROWD || undefined}
          data-dim={looked !== undefined || undefined}
          onPointerMove={(event) => onHot(at(event)?.member.member ?? null)}
          onPointerLeave={() => onHot(null)}
          onClick={(event) => {
            const line = at(event as unknown as PointerEvent<SVGSVGElement>);
            if (line !== null) onPick(line.member.member);
          }}
        >
          <g className={classes.lines}>
            {paths.map((path, index) => (
              <path key={index} className={classes.line} data-band={index - 1} d={path} />
            ))}
          </g>
          {best === undefined ? null : <path className={classes.best} d={pathOf(best, gap)} />}
          {axes.map((axis, index) => (
            <AxisLine key={`${index} ${axis.name}`} axis={axis} x={SIDE + gap * index} gap={gap} />
          ))}
          {looked === undefined ? null : (
            <g className={classes.hot}>
              <path d={pathOf(looked, gap)} />
              {looked.places.map((place, index) => (
                <circle key={index} cx={SIDE + gap * index} cy={heightOf(place)} r={4} />
              ))}
            </g>
          )}
        </svg>
      </div>
      <div className={classes.under} aria-hidden="true">
        <p className={classes.words}>
          {looked === undefined
            ? "Point at a line, or at a row of the table, to see its member."
            : memberWords(looked.member, sweep.metric)}
        </p>
        <ul className={classes.legend}>
          <li>
            <span className={classes.swatch} data-best />
            Best
          </li>
          {Array.from({ length: BANDS }, (_, index) => BANDS - 1 - index).map((band) => (
            <li key={band}>
              <span className={classes.swatch} data-band={band} />
              {band === BANDS - 1 ? "Best quarter" : band === 0 ? "Worst quarter" : ""}
            </li>
          ))}
          <li>
            <span className={classes.swatch} data-band={-1} />
            No value yet
          </li>
        </ul>
      </div>
    </figure>
  );
}

function AxisLine({ axis, x, gap }: { axis: Axis; x: number; gap: number }) {
  return (
    <g className={classes.axis}>
      <text className={classes.name} x={x} y={14} textAnchor="middle">
        {shortened(axis.name, gap)}
        <title>{axis.name}</title>
      </text>
      <line x1={x} x2={x} y1={TOP} y2={HEIGHT - BOTTOM} />
      {axis.scale.ticks.map(({ at, label }) => (
        <text key={label} className={classes.tick} x={x + 6} y={heightOf(at)} dominantBaseline="central">
          {shortened(label, gap * 0.7)}
        </text>
      ))}
    </g>
  );
}

const PIXELS_A_LETTER = 7;
const shortened = (text: string, width: number): string => {
  const fits = Math.max(3, Math.floor(width / PIXELS_A_LETTER));
  return text.length <= fits ? text : `${text.slice(0, fits - 1)}…`;
};

const heightOf = (place: number): number => TOP + (1 - place) * (HEIGHT - TOP - BOTTOM);

const pathOf = (line: MemberLine, gap: number): string =>
  line.places
    .map(
      (place, index) =>
        `${index === 0 ? "M" : "L"}${(SIDE + gap * index).toFixed(1)} ${heightOf(place).toFixed(1)}`,
    )
    .join("");

/** One path for each band, so that a thousand members are five elements of the page. */
function pathsOf(lines: readonly MemberLine[], gap: number): string[] {
  const paths = Array.from({ length: BANDS + 1 }, () => "");
  for (const line of lines) paths[line.band + 1] = (paths[line.band + 1] ?? "") + pathOf(line, gap);
  return paths;
}

function sentence(sweep: Sweep, members: readonly SweepMember[]): string {
  const { best, metric } = sweep;
  const all = `${plural(members.length, "member")} over ${plural(sweep.params.length, "parameter")}`;
  if (best === null) return `${all}: none has reported ${metric} yet.`;
  return `${all}: the best ${metric} is ${figure(best.value)}, of member ${best.member}: ${paramWords(best.params)}.`;
}
