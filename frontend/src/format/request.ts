/** How what a job asks for reads. */

interface Choice {
  gpu_type: string | null;
  gpus: number;
}

interface Request {
  gpu_choices: readonly Choice[];
  nodes: number;
}

/** GPUs on all nodes: `8`, or `4–8` where the choices differ in size. */
export function gpuTotals({ gpu_choices: choices, nodes }: Request): string {
  const totals = choices.map((choice) => choice.gpus * nodes);
  const [least, most] = [Math.min(...totals), Math.max(...totals)];
  return least === most ? String(most) : `${least}–${most}`;
}

/** `no GPU`, `1 GPU`, `4–8 GPUs`. */
export function gpuCount(request: Request): string {
  const totals = gpuTotals(request);
  return totals === "0" ? "no GPU" : `${totals} ${totals === "1" ? "GPU" : "GPUs"}`;
}

/** `4 A100`, `8 A100 (2 nodes of 4)`, `4 A100 or 8 V100`, `none`. */
export function gpuWords({ gpu_choices: choices, nodes }: Request): string {
  const each = choices.map(({ gpus, gpu_type: type }) =>
    gpus === 0 ? "none" : `${gpus * nodes}${type === null ? "" : ` ${type}`}`,
  );
  const [only] = choices;
  if (nodes === 1) return each.join(" or ");
  if (only === undefined || choices.length > 1) return `${each.join(" or ")} (${nodes} nodes)`;
  return only.gpus === 0 ? `none, on ${nodes} nodes` : `${each.join("")} (${nodes} nodes of ${only.gpus})`;
}
