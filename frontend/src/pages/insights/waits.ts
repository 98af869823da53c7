/** Mean waits as stacks of bars, one for each group. */
import type { DelayUsage } from "../../api/types";
import type { Stack } from "../../components/charts/StackedBars";
import { plural } from "../../format/amount";
import { partsOf } from "../../format/delays";

const MAX_STACKS = 30;
const short = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", timeZone: "UTC" });

/** A stack for each row: of groups those with most starts, in the order of the answer. */
export function waitStacks({ results }: DelayUsage, by: "week" | "tenant" | "size"): Stack[] {
  const jobs = (row: DelayUsage["results"][number]) => row.starts + row.waiting;
  const shown = new Set([...results].sort((one, other) => jobs(other) - jobs(one)).slice(0, MAX_STACKS));
  return results
    .filter((row) => shown.has(row))
    .map((row) => {
      const name = row[by] ?? "";
      const label = by === "week" ? short.format(new Date(name)) : name;
      const what = {
        week: `Week from ${label}`,
        tenant: name,
        size: name === "1" ? "1 GPU" : `${name} GPUs`,
      }[by];
      const waiting = row.waiting === 0 ? "" : `, ${String(row.waiting)} waiting`;
      return { label, title: `${what}: ${plural(row.starts, "start")}${waiting}`, parts: partsOf(row) };
    });
}
