/** The members of a sweep as lines across one axis a parameter and one for the metric. */
import type { Sweep, SweepMember } from "../../api/types";
import {
  choiceScale,
  linearScale,
  logScale,
  scaleOf,
  turned,
  type Scale,
} from "../../components/charts/scales";

export interface Axis {
  name: string;
  scale: Scale;
}

/** Members are told apart by how good they are beside the others: the last band is the best. */
export const BANDS = 4;

export interface MemberLine {
  member: SweepMember;
  /** Where the line stands on each axis, from 0 at the bottom to 1 at the top; it ends before the metric without a value. */
  places: readonly number[];
  /** Its quarter by the metric, the best is the last; -1 without a value. */
  band: number;
}

type Shown = Pick<Sweep, "spec" | "params" | "metric" | "goal">;

/** The axes: the parameters in the order of the spec, and the metric with its better end at the top. */
export function axesOf(sweep: Shown, members: readonly SweepMember[]): Axis[] {
  const { params: given = {} } = (sweep.spec.sweep ?? {}) as { params?: Record<string, unknown> };
  const params = sweep.params.map((name) => ({ name, scale: paramScale(name, given[name], members) }));
  const metric = scaleOf(members.flatMap(({ value }) => (value === null ? [] : [value])));
  return [...params, { name: sweep.metric, scale: sweep.goal === "min" ? turned(metric) : metric }];
}

function paramScale(name: string, given: unknown, members: readonly SweepMember[]): Scale {
  if (Array.isArray(given)) return choiceScale(given);
  const { log, int, uniform } = (given ?? {}) as Record<string, [number, number] | undefined>;
  if (log !== undefined) return logScale(...log);
  const range = int ?? uniform;
  if (range !== undefined) return linearScale(...range);
  const values = members.flatMap(({ params }) => params[name] ?? []);
  const numbers = values.filter((value) => typeof value === "number");
  return numbers.length === values.length ? scaleOf(numbers) : choiceScale([...new Set(values)]);
}

/** Whether one value is better than another; one that is known is better than none. */
export function compareValues(goal: Sweep["goal"], one: number | null, other: number | null): number {
  if (one === null || other === null) return Number(one === null) - Number(other === null);
  return goal === "min" ? one - other : other - one;
}

/** A line for each member, the best last so that it is drawn over the others. */
export function linesOf(sweep: Shown, axes: readonly Axis[], members: readonly SweepMember[]): MemberLine[] {
  const worstFirst = members.toSorted((one, other) => compareValues(sweep.goal, other.value, one.value));
  const unknown = worstFirst.filter(({ value }) => value === null).length;
  const known = worstFirst.length - unknown;
  return worstFirst.map((member, index) => ({
    member,
    places: placesOf(axes, member),
    band: member.value === null ? -1 : Math.ceil((BANDS * (index - unknown + 1)) / known) - 1,
  }));
}

function placesOf(axes: readonly Axis[], member: SweepMember): number[] {
  const places: number[] = [];
  for (const [index, { name, scale }] of axes.entries()) {
    const place = scale.place(index === axes.length - 1 ? member.value : member.params[name]);
    if (place === null) break;
    places.push(place);
  }
  return places;
}

/**
 * The line nearest to a point, or null if none is near.
 *
 * @param x where between the axes, in axes from the left: 1.5 is between the second and the third
 * @param reach how far along the axes a line may be from the point
 */
export function nearest(
  lines: readonly MemberLine[],
  x: number,
  y: number,
  reach: number,
): MemberLine | null {
  const left = Math.max(0, Math.floor(x));
  let best: MemberLine | null = null;
  let least = reach;
  for (const line of lines) {
    const from = line.places[left];
    const to = line.places[left + 1] ?? (x === left ? from : undefined);
    if (from === undefined || to === undefined) continue;
    const distance = Math.abs(from + (to - from) * (x - left) - y);
    // The lines are drawn with the best last: where several coincide, the best is seen.
    if (distance <= least) [best, least] = [line, distance];
  }
  return best;
}
