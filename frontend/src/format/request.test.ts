import { expect, test } from "vitest";

import { gpuCount, gpuTotals, gpuWords } from "./request";

const one = (gpus: number, type: string | null = null) => [{ gpu_type: type, gpus }];
const two = [
  { gpu_type: "A100", gpus: 4 },
  { gpu_type: "V100", gpus: 8 },
];

test.each([
  [one(0), 1, "0", "no GPU", "none"],
  [one(0), 2, "0", "no GPU", "none, on 2 nodes"],
  [one(1), 1, "1", "1 GPU", "1"],
  [one(4, "A100"), 1, "4", "4 GPUs", "4 A100"],
  [one(4, "A100"), 2, "8", "8 GPUs", "8 A100 (2 nodes of 4)"],
  [two, 1, "4–8", "4–8 GPUs", "4 A100 or 8 V100"],
  [two, 2, "8–16", "8–16 GPUs", "8 A100 or 16 V100 (2 nodes)"],
])("%j on %i nodes", (gpu_choices, nodes, totals, count, words) => {
  const request = { gpu_choices, nodes };
  expect(gpuTotals(request)).toBe(totals);
  expect(gpuCount(request)).toBe(count);
  expect(gpuWords(request)).toBe(words);
});
