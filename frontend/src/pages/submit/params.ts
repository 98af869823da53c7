/** The parameters of a sweep as lines of a form. */
import type { Spec } from "../../api/types";
import { textOf } from "./fields";

export const RANGES = ["log", "uniform", "int"] as const;
export type Kind = "list" | (typeof RANGES)[number];

/** A parameter: its values with commas between them, or the two ends of its range. */
export interface Param {
  name: string;
  kind: Kind;
  values: string;
  from: string;
  to: string;
}

export const NEW_PARAM: Param = { name: "", kind: "list", values: "", from: "", to: "" };

const isMapping = (value: unknown): value is Spec =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function paramFrom(name: string, value: unknown): Param {
  if (isMapping(value)) {
    const kind = RANGES.find((each) => each in value);
    const ends: unknown = kind && value[kind];
    if (kind !== undefined && Array.isArray(ends)) {
      return { ...NEW_PARAM, name, kind, from: textOf(ends[0]), to: textOf(ends[1]) };
    }
  }
  const values = Array.isArray(value) ? value.map(textOf) : [textOf(value)];
  return { ...NEW_PARAM, name, values: values.join(", ") };
}

/** The parameters of a spec, in its order. */
export const readParams = (params: unknown): Param[] =>
  isMapping(params) ? Object.entries(params).map(([name, value]) => paramFrom(name, value)) : [];

/** A number or a boolean where the text is one. */
function valueOf(text: string): string | number | boolean {
  const word = text.trim();
  if (word === "true" || word === "false") return word === "true";
  return word !== "" && Number.isFinite(Number(word)) ? Number(word) : word;
}

/** The parameters as a spec has them; lines without a name are left out. */
export function writeParams(params: readonly Param[]): Spec {
  const named = params.filter(({ name }) => name.trim() !== "");
  return Object.fromEntries(
    named.map(({ name, kind, values, from, to }) => {
      const listed = values.split(",").filter((each) => each.trim() !== "");
      return [name.trim(), kind === "list" ? listed.map(valueOf) : { [kind]: [from, to].map(valueOf) }];
    }),
  );
}
