/** The columns of the table of members, and its order. */
import type { Sweep, SweepMember } from "../../api/types";
import { compareValues } from "./parallel";
import { MEMBER_STATES, valueWords } from "./words";

export interface Column {
  key: string;
  label: string;
  numeric: boolean;
  compare: (one: SweepMember, other: SweepMember) => number;
}

export interface Order {
  column: string;
  descending: boolean;
}

const placeOf = (member: SweepMember): number =>
  MEMBER_STATES.findIndex(({ state }) => state === member.state);

/** Numbers by size, text by letters, and what is missing last. */
function compareAny(one: unknown, other: unknown): number {
  if (typeof one === "number" && typeof other === "number") return one - other;
  if (one === undefined || other === undefined)
    return Number(one === undefined) - Number(other === undefined);
  return valueWords(one).localeCompare(valueWords(other));
}

/** The metric stands beside the member, so that a narrow screen shows it. */
export function columnsOf(sweep: Pick<Sweep, "params" | "metric" | "goal">): Column[] {
  return [
    { key: "member", label: "Member", numeric: true, compare: (one, other) => one.member - other.member },
    {
      key: "value",
      label: sweep.metric,
      numeric: true,
      compare: (one, other) => compareValues(sweep.goal, one.value, other.value),
    },
    { key: "state", label: "State", numeric: false, compare: (one, other) => placeOf(one) - placeOf(other) },
    ...sweep.params.map((name) => ({
      key: `param ${name}`,
      label: name,
      numeric: true,
      compare: (one: SweepMember, other: SweepMember) => compareAny(one.params[name], other.params[name]),
    })),
    {
      key: "step",
      label: "Step",
      numeric: true,
      compare: (one, other) => (one.step ?? -1) - (other.step ?? -1),
    },
    {
      key: "gpu_hours",
      label: "GPU-hours",
      numeric: true,
      compare: (one, other) => one.gpu_hours - other.gpu_hours,
    },
    { key: "why", label: "Why", numeric: false, compare: (one, other) => compareAny(one.why, other.why) },
  ];
}

/** The members in the order of a column; equal ones by their number. */
export function sorted(
  columns: readonly Column[],
  members: readonly SweepMember[],
  order: Order,
): SweepMember[] {
  const column = columns.find(({ key }) => key === order.column);
  const sign = order.descending ? -1 : 1;
  return members.toSorted(
    (one, other) => sign * (column?.compare(one, other) ?? 0) || one.member - other.member,
  );
}
