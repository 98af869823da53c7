import { expect, it } from "vitest";

import { estimateWords, rateWords } from "./estimate";

it("tells the expected run time with its source", () => {
  expect(estimateWords({ expected_s: 5400, source: "history" })).toBe("1h 30m (from similar jobs before it)");
  expect(estimateWords({ expected_s: 400, source: "doubled" })).toBe(
    "6m 40s (doubled: it has run for longer than was expected)",
  );
});

it("tells a rate with its deviation and source", () => {
  const rate = { gpu_type: "A100", gpus: 4, per_s: 410.4, deviation: 30.2, source: "measured" } as const;
  expect(rateWords(rate)).toBe("4 A100: 410 ± 30 per second, measured");
  expect(rateWords({ ...rate, deviation: null, source: "claimed" })).toBe("4 A100: 410 per second, claimed");
  expect(rateWords({ ...rate, per_s: 0 })).toBe("4 A100: does not run there");
});
