const MINUTE = 60;
const HOUR = 3600;
const DAY = 86_400;

const pad = (value: number): string => String(value).padStart(2, "0");

/** A length of time in at most two units: `8s`, `4m 12s`, `3h 07m`, `2d 4h`. */
export function duration(seconds: number): string {
  const total = Math.max(0, Math.floor(seconds));
  if (total < MINUTE) return `${total}s`;
  if (total < HOUR) return `${Math.floor(total / MINUTE)}m ${pad(total % MINUTE)}s`;
  if (total < DAY) return `${Math.floor(total / HOUR)}h ${pad(Math.floor((total % HOUR) / MINUTE))}m`;
  return `${Math.floor(total / DAY)}d ${Math.floor((total % DAY) / HOUR)}h`;
}

/** A length of time shorter than a minute keeps a decimal, for short jobs and start-ups. */
export function fineDuration(seconds: number): string {
  return seconds >= 0 && seconds < 10 ? `${seconds.toFixed(1)}s` : duration(seconds);
}

export function secondsBetween(from: string | number, to: string | number): number {
  return (new Date(to).getTime() - new Date(from).getTime()) / 1000;
}

/** How long ago something was: `just now`, `4m ago`, `3h ago`, `5d ago`; or how far ahead: `in 3d`. */
export function ago(at: string, now: number): string {
  const seconds = (now - new Date(at).getTime()) / 1000;
  const ahead = seconds < 0;
  const size = Math.abs(seconds);
  if (size < 10) return ahead ? "in a moment" : "just now";
  const text =
    size < MINUTE
      ? `${Math.floor(size)}s`
      : size < HOUR
        ? `${Math.floor(size / MINUTE)}m`
        : size < DAY
          ? `${Math.floor(size / HOUR)}h`
          : `${Math.floor(size / DAY)}d`;
  return ahead ? `in ${text}` : `${text} ago`;
}

const absolute = new Intl.DateTimeFormat(undefined, {
  dateStyle: "medium",
  timeStyle: "medium",
  hourCycle: "h23",
});
const clock = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
});
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });

/** `2026-01-01 12:00:00 UTC`. */
export const utcTime = (at: string): string =>
  `${new Date(at).toISOString().slice(0, 19).replace("T", " ")} UTC`;

const MOMENT = /\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)/g;

/** The text with each moment in it in the local zone, and how far off it is: `11:40:12 (in 14s)`. */
export function timesInWords(text: string, now: number): string {
  return text.replaceAll(MOMENT, (at) => {
    const isNear = Math.abs(new Date(at).getTime() - now) < (DAY / 2) * 1000;
    return `${isNear ? clockTime(at) : fullTime(at)} (${ago(at, now)})`;
  });
}

const minute = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const dayAndMinute = new Intl.DateTimeFormat(undefined, {
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  hourCycle: "h23",
});

/** A moment that is only roughly known, to the minute: `14:05`, or with its day if that is not today. */
export function roughTime(at: string): string {
  const moment = new Date(at);
  return (moment.toDateString() === new Date().toDateString() ? minute : dayAndMinute).format(moment);
}

export const fullTime = (at: string): string => absolute.format(new Date(at));
export const clockTime = (at: string): string => clock.format(new Date(at));
export const dateOnly = (at: string): string => day.format(new Date(at));
