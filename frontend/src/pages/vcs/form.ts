/** The form of a virtual cluster's quotas and weight: what is typed, and the change that it asks for. */
import type { Problem } from "../../api/problem";
import type { VcChange, VcDetail } from "../../api/types";

export interface QuotaFields {
  gpu_type: string;
  gpus: string;
  /** Empty: no limit. */
  borrowing: string;
  lending: string;
}

export interface Form {
  weight: string;
  quotas: QuotaFields[];
  move: { to: string; gpu_type: string; gpus: string };
}

const text = (value: number | null | undefined): string =>
  value === null || value === undefined ? "" : String(value);

/** The values as they are now; types of the pool without a quota have an empty one. */
export function formOf(vc: VcDetail, poolTypes: readonly string[]): Form {
  const types = [...new Set([...vc.quotas.map(({ gpu_type }) => gpu_type), ...poolTypes])].sort();
  return {
    weight: text(vc.weight),
    quotas: types.map((gpu_type) => {
      const quota = vc.quotas.find((each) => each.gpu_type === gpu_type);
      return {
        gpu_type,
        gpus: text(quota?.gpus),
        borrowing: text(quota?.borrowing_limit),
        lending: text(quota?.lending_limit),
      };
    }),
    move: { to: "", gpu_type: types[0] ?? "", gpus: "" },
  };
}

/** The first field that holds no number that may be sent, and why; null if all may. */
export function mistakeIn(form: Form): { field: string; message: string } | null {
  if (!(Number(form.weight) > 0)) return { field: "weight", message: "Give a number above 0." };
  for (const { gpu_type, gpus, borrowing, lending } of form.quotas) {
    for (const [name, value] of Object.entries({ gpus, borrowing, lending })) {
      if (!/^\d*$/.test(value.trim())) {
        return { field: `${gpu_type}.${name}`, message: "Give a whole number from 0 on, or leave it empty." };
      }
    }
  }
  return null;
}

/** The change that the form asks for; null if it asks for none. */
export function changeOf(form: Form, vc: VcDetail): VcChange | null {
  const change: VcChange = { version: vc.version };
  if (Number(form.weight) !== vc.weight) change.weight = Number(form.weight);
  const quotas = form.quotas.flatMap(({ gpu_type, gpus, borrowing, lending }) => {
    const old = vc.quotas.find((each) => each.gpu_type === gpu_type);
    const changed = {
      ...(Number(gpus) !== (old?.gpus ?? 0) && { gpus: Number(gpus) }),
      ...(limit(borrowing) !== (old?.borrowing_limit ?? null) && { borrowing_limit: limit(borrowing) }),
      ...(limit(lending) !== (old?.lending_limit ?? null) && { lending_limit: limit(lending) }),
    };
    return Object.keys(changed).length === 0 ? [] : [{ gpu_type, ...changed }];
  });
  if (quotas.length > 0) change.quotas = quotas;
  const { to, gpu_type, gpus } = form.move;
  if (to !== "" && Number(gpus) > 0) change.move = { to, gpu_type, gpus: Number(gpus) };
  return Object.keys(change).length === 1 ? null : change;
}

const limit = (value: string): number | null => (value.trim() === "" ? null : Number(value));

const NAMES: Record<string, string> = { borrowing_limit: "borrowing", lending_limit: "lending" };

/** What the server says of each field of the form, by its name there, such as `A100.gpus`. */
export function refusals(problem: Problem, change: VcChange): Map<string, string> {
  const found = new Map<string, string>();
  for (const { field, message } of problem.fields) {
    const [head, index, name] = field.split(".");
    const row = head === "quotas" ? change.quotas?.[Number(index)] : undefined;
    const named = row === undefined ? field : `${row.gpu_type}.${NAMES[name ?? ""] ?? name ?? "gpus"}`;
    found.set(named, `${message.slice(0, 1).toUpperCase()}${message.slice(1)}`);
  }
  return found;
}
