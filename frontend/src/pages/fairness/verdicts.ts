import type { PolicyVerdicts } from "../../api/types";

export interface Witness {
  sentence: string;
  /** The newest snapshot of which it is true. */
  at: string;
  times: number;
}

/** Each sentence once, in the order of the newest: snapshots of one minute often show the same. */
export function grouped(witnesses: PolicyVerdicts["witnesses"]): Witness[] {
  const found = new Map<string, Witness>();
  for (const { at, sentence } of witnesses) {
    const old = found.get(sentence);
    found.set(sentence, { sentence, at: old?.at ?? at, times: (old?.times ?? 0) + 1 });
  }
  return [...found.values()];
}
