import { expect, it } from "vitest";

import { estimateWords, rateWords } from "./estimate";

it("tells the expected run time with its source and its interval", () => {
  expect(estimateWords({ expected_s: 5400, p10_s: 600, p90_s: 14400, source: "model" })).toBe(
    "1h 30m (learned from jobs that have ended, 8 in 10 between 10m 00s and 4h 00m)",
  );
  expect(estimateWords({ expected_s: 400, p10_s: null, p90_s: null, source: "outlived" })).toBe(
    "6m 40s (it has run for longer than nine of ten such jobs)",
  );
});

it("tells a rate with its deviation and source", () => {
  const rate = { gpu_type: "A100", gpus: 4, per_s: 410.4, deviation: 30.2, source: "measured" } as const;
  expect(rateWords(rate)).toBe("4 A100: 410 ± 30 per second, measured");
  expect(rateWords({ ...rate, deviation: null, source: "claimed" })).toBe("4 A100: 410 per second, claimed");
  expect(rateWords({ ...rate, per_s: 0 })).toBe("4 A100: does not run there");
});
