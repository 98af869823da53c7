import type { PolicyVerdicts } from "../../api/types";
import { plural } from "../../format/amount";

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

/**
 * The verdict on a property that did not hold in `broken` of the snapshots. In `byQuotas` of these each gain would take
 * a tenant beyond its quota: that is what quotas are for, and no fault of the policy.
 */
export function verdictWords(
  snapshots: number,
  broken: number,
  byQuotas: number,
): { kept: boolean | undefined; words: string } {
  if (snapshots === 0) return { kept: undefined, words: "–" };
  if (broken === 0) return { kept: true, words: `Held in all ${plural(snapshots, "snapshot")}` };
  const quotas = `Quotas keep GPUs idle in ${byQuotas} of ${snapshots}`;
  if (broken === byQuotas) return { kept: undefined, words: quotas };
  const words = `Broken in ${broken - byQuotas} of ${snapshots}`;
  return { kept: false, words: byQuotas === 0 ? words : `${words}. ${quotas}` };
}
