/** Ties inputs of the form to keys of the spec. */
import type { Spec } from "../../api/types";
import { namesOf, numberOf, textOf } from "./fields";

export interface Bound {
  spec: Spec;
  disabled: boolean;
  /** What the server has against a field, by its name. */
  errorOf: (field: string) => string | undefined;
  onChange: (path: readonly string[], value: unknown) => void;
}

function valueAt(spec: Spec, path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (value, key) => (typeof value === "object" && value !== null ? (value as Spec)[key] : undefined),
    spec,
  );
}

/** The properties of inputs for the keys of a spec; an empty input takes its key away. */
export function bind({ spec, disabled, errorOf, onChange }: Bound) {
  const common = (path: readonly string[]) => ({ error: errorOf(path.join(".")), disabled });
  return {
    text: (...path: string[]) => ({
      ...common(path),
      value: textOf(valueAt(spec, path)),
      onChange: (event: { currentTarget: { value: string } }) => onChange(path, event.currentTarget.value),
    }),
    number: (...path: string[]) => ({
      ...common(path),
      allowDecimal: false,
      value: numberOf(valueAt(spec, path)),
      onChange: (value: number | string) => onChange(path, value === "" ? undefined : Number(value)),
    }),
    /** One of several words, of which the first is what an empty key means. */
    choice: (path: readonly string[], words: readonly [string, ...string[]]) => ({
      ...common(path),
      data: [...words],
      value: textOf(valueAt(spec, path)) === "" ? words[0] : textOf(valueAt(spec, path)),
      onChange: (value: string | null) => onChange(path, value === words[0] ? undefined : value),
    }),
    list: (key: string) => ({
      ...common([key]),
      value: namesOf(spec[key]),
      onChange: (value: string[]) => onChange([key], value.length === 0 ? undefined : value),
    }),
  };
}
