import type { Auction } from "../../api/types";
import { figure } from "../../components/charts/charts";
import { percent } from "../../format/amount";

/** `4 A100 and 2 V100`; a GPU without a type is a GPU. */
export function gpusWords(gpus: Record<string, number>): string {
  const each = Object.entries(gpus).map(
    ([kind, number]) => `${number} ${kind === "" ? (number === 1 ? "GPU" : "GPUs") : kind}`,
  );
  return each.length === 0 ? "no GPU" : each.join(" and ");
}

/** `2 A100: 0.41; 4 A100 close together: 0.7`: the value is 1/ρ with these GPUs. */
export function bidWords(rows: Auction["bids"][number]["rows"]): string {
  if (rows.length === 0) return "nothing";
  return rows
    .map(({ gpu_type, gpus, packed, value }) => {
      const what = gpusWords({ [gpu_type]: gpus });
      return `${what}${packed && gpus > 1 ? " close together" : ""}: ${figure(value)}`;
    })
    .join("; ");
}

/** How much of a lease is left to a winner: what is missing is the hidden payment. */
export const partWords = (part: number): string => (part >= 1 ? "all of it" : `${percent(part, 1)} % of it`);
