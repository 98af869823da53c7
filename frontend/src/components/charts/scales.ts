/** Where values stand along an axis, from 0 to 1, and which of them the axis names. */
import { figure } from "./charts";

export interface Tick {
  at: number;
  label: string;
}

export interface Scale {
  /** The place of a value between 0 and 1; null if it is none of this axis. */
  place: (value: unknown) => number | null;
  ticks: readonly Tick[];
}

const FEW_TICKS = 5;
const MAX_POWERS = 6;
/** Positive values that differ by more than this factor are shown by their order of magnitude. */
const LOG_FROM = 100;
const MAX_CHOICES = 8;

/** `1e-5` rather than `1.00e-5`: a tick is a round number. */
const tickWords = (value: number): string => figure(value).replace(/\.?0+e/, "e");

const within = (at: number): number | null => (Number.isFinite(at) ? Math.min(1, Math.max(0, at)) : null);

export function linearScale(from: number, to: number): Scale {
  if (!(to > from)) return oneValue(from);
  const step = roundStep((to - from) / FEW_TICKS);
  const first = Math.ceil(from / step - 1e-9);
  const last = Math.floor(to / step + 1e-9);
  const place = (value: number) => (value - from) / (to - from);
  return {
    place: (value) => (typeof value === "number" ? within(place(value)) : null),
    ticks: Array.from({ length: last - first + 1 }, (_, index) => (first + index) * step).map((value) => ({
      at: within(place(value)) ?? 0,
      label: tickWords(value),
    })),
  };
}

export function logScale(from: number, to: number): Scale {
  if (!(from > 0 && to > from)) return oneValue(from);
  const span = Math.log(to / from);
  const place = (value: number) => Math.log(value / from) / span;
  const first = Math.ceil(Math.log10(from) - 1e-9);
  const last = Math.floor(Math.log10(to) + 1e-9);
  const every = Math.ceil((last - first + 1) / MAX_POWERS);
  const powers = Array.from(
    { length: Math.max(0, Math.floor((last - first) / every) + 1) },
    (_, index) => 10 ** (first + index * every),
  );
  return {
    place: (value) => (typeof value === "number" && value > 0 ? within(place(value)) : null),
    ticks: (powers.length >= 2 ? powers : [from, to]).map((value) => ({
      at: within(place(value)) ?? 0,
      label: tickWords(value),
    })),
  };
}

export function choiceScale(choices: readonly unknown[]): Scale {
  const names = choices.map(nameOf);
  const place = (index: number) => (names.length === 1 ? 0.5 : index / (names.length - 1));
  const every = Math.ceil(names.length / MAX_CHOICES);
  return {
    place: (value) => {
      const index = names.indexOf(nameOf(value));
      return index < 0 ? null : place(index);
    },
    ticks: names
      .map((label, index) => ({ at: place(index), label }))
      .filter((_, index) => index % every === 0),
  };
}

/** An axis for values whose range is known only from themselves. */
export function scaleOf(values: readonly number[]): Scale {
  const known = values.filter(Number.isFinite);
  if (known.length === 0) return { place: () => null, ticks: [] };
  const from = known.reduce((least, value) => Math.min(least, value));
  const to = known.reduce((most, value) => Math.max(most, value));
  return from > 0 && to / from > LOG_FROM ? logScale(from, to) : linearScale(from, to);
}

/** The same axis from its other end. */
export function turned(scale: Scale): Scale {
  return {
    place: (value) => {
      const at = scale.place(value);
      return at === null ? null : 1 - at;
    },
    ticks: scale.ticks.map(({ at, label }) => ({ at: 1 - at, label })),
  };
}

const oneValue = (only: number): Scale => ({
  place: (value) => (typeof value === "number" ? 0.5 : null),
  ticks: [{ at: 0.5, label: tickWords(only) }],
});

const nameOf = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));

/** The step that is 1, 2 or 5 times a power of ten and not below this one. */
function roundStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  return ([1, 2, 5].find((times) => times * power >= least * (1 - 1e-9)) ?? 10) * power;
}
