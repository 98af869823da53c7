/** The periods that pages offer, and the days or weeks that a period has. */
export const PERIODS = [
  { since: "7d", label: "7 days", by: "day" },
  { since: "30d", label: "30 days", by: "day" },
  { since: "90d", label: "90 days", by: "week" },
] as const;
export type Period = (typeof PERIODS)[number];

export const periodOf = (since: string | undefined): Period =>
  PERIODS.find((period) => period.since === since) ?? PERIODS[0];

const DAY_MS = 86_400_000;

/** The first day of each day or week of a period, in UTC, such as `2026-11-22`. */
export function bucketsOf(from: string, to: string, by: "day" | "week"): string[] {
  const first = new Date(`${from.slice(0, 10)}T00:00:00Z`);
  // Weeks begin on Mondays; Sunday is day 0 of Javascript's.
  if (by === "week") first.setUTCDate(first.getUTCDate() - ((first.getUTCDay() + 6) % 7));
  const step = by === "week" ? 7 * DAY_MS : DAY_MS;
  const found: string[] = [];
  for (let at = first.getTime(); at < new Date(to).getTime(); at += step) {
    found.push(new Date(at).toISOString().slice(0, 10));
  }
  return found;
}
