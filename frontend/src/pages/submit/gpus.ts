/** The key `gpus` of a spec in the form: one choice, or two that name their types. */

/** GPUs on each node; an empty type stands for any one type. */
export interface GpuChoice {
  count: number;
  type: string;
}

export interface GpuChoices {
  first: GpuChoice;
  /** What the job accepts where the first choice has no room; none: null. */
  second: GpuChoice | null;
  /** Written in a way that the form cannot show; it is changed in the YAML. */
  custom: boolean;
}

const NONE: GpuChoice = { count: 0, type: "" };

function readChoice(value: unknown): GpuChoice | null {
  if (typeof value === "number" && Number.isInteger(value)) return { count: value, type: "" };
  const match = typeof value === "string" ? /^(?:([^:]+):)?(\d+)$/.exec(value.trim()) : null;
  return match === null ? null : { count: Number(match[2]), type: match[1] ?? "" };
}

export function readGpus(value: unknown): GpuChoices {
  if (value === undefined || value === null) return { first: NONE, second: null, custom: false };
  const list: unknown = typeof value === "object" && "any_of" in value ? value.any_of : [value];
  const choices = Array.isArray(list) ? list.map(readChoice) : [];
  const [first, second = null] = choices;
  if (first === undefined || first === null || choices.includes(null) || choices.length > 2) {
    return { first: NONE, second: null, custom: true };
  }
  return { first, second, custom: false };
}

const written = ({ count, type }: GpuChoice): string => `${type}:${count}`;

/** What the choices are in a spec; a second one counts only beside a first one with a type. */
export function writeGpus(first: GpuChoice, second: GpuChoice | null = null): unknown {
  if (first.count <= 0) return undefined;
  if (first.type === "") return first.count;
  return second === null || second.count <= 0 || second.type === ""
    ? written(first)
    : { any_of: [written(first), written(second)] };
}
