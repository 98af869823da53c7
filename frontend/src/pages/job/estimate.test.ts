import { expect, it } from "vitest";

import { estimateWords } from "./estimate";

it("tells the expected run time with its source", () => {
  expect(estimateWords({ expected_s: 5400, source: "history" })).toBe("1h 30m (by the last jobs alike)");
  expect(estimateWords({ expected_s: 400, source: "doubled" })).toBe(
    "6m 40s (doubled: it has run for longer than was expected)",
  );
});
