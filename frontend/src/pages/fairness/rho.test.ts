import { expect, test } from "vitest";

import { bidWords, gpusWords, partWords } from "./auctions";
import { grouped, verdictWords } from "./verdicts";
import { barOf, byTenant, byWeek, paysWords } from "./rho";

const figures = (applications: number, median: number | null, mean = median, max = median) => ({
  applications,
  rho_quota_median: median,
  rho_quota_mean: mean,
  rho_quota_max: max,
  rho_cluster_median: null,
  rho_cluster_mean: null,
  rho_cluster_max: null,
});

test("the tenant whose median job pays most comes first, and the newest week", () => {
  const tenants = [
    { tenant: "vision", ...figures(3, 1, 8, 22) },
    { tenant: "nlp", ...figures(4, 1.5, 1.75, 4) },
    { tenant: "robots", ...figures(2, null) },
  ];
  expect(byTenant(tenants)).toEqual([
    { name: "nlp", applications: 4, median: 1.5, mean: 1.75, max: 4 },
    { name: "vision", applications: 3, median: 1, mean: 8, max: 22 },
  ]);
  const weeks = ["2026-11-16", "2026-11-23"].map((week) => ({ week, ...figures(1, 1) }));
  expect(byWeek(weeks).map(({ name }) => name)).toEqual(["2026-11-23", "2026-11-16"]);
});

test("who pays for whom is a sentence", () => {
  const [nlp, vision] = [
    { name: "nlp", median: 1.75 },
    { name: "vision", median: 0.5 },
  ];
  expect(paysWords([nlp, vision])).toBe("nlp paid for vision.");
  expect(paysWords([nlp, { name: "robots", median: 1.2 }])).toBe(
    "nlp and robots waited longer than alone, and no tenant gained.",
  );
  expect(paysWords([vision])).toBe("No tenant was slower than alone with its quota.");
  expect(paysWords([{ name: "nlp", median: 1.04 }])).toBe("Each tenant was as fast as alone with its quota.");
});

test("a bar shows twice as slow as far from the middle as twice as fast", () => {
  expect(barOf(2)).toEqual({ side: "pays", share: 0.5 });
  expect(barOf(0.5)).toEqual({ side: "gains", share: 0.5 });
  expect(barOf(1).share).toBe(0);
  expect(barOf(100).share).toBe(1);
});

test("bids, GPUs and payments read in words", () => {
  expect(gpusWords({ A100: 4, V100: 2 })).toBe("4 A100 and 2 V100");
  expect(gpusWords({ "": 1 })).toBe("1 GPU");
  expect(gpusWords({})).toBe("no GPU");
  expect(
    bidWords([
      { gpu_type: "A100", gpus: 1, packed: true, value: 0.25 },
      { gpu_type: "A100", gpus: 4, packed: true, value: 0.81234 },
    ]),
  ).toBe("1 A100: 0.25; 4 A100 close together: 0.8123");
  expect(partWords(1)).toBe("all of it");
  expect(partWords(0.81)).toBe("81 % of it");
});

test("a sentence that several snapshots show stands once, with the newest of them", () => {
  const [a, b] = ["nlp would be better off", "vision would rather have"];
  expect(
    grouped([
      { at: "3", sentence: a },
      { at: "2", sentence: b },
      { at: "1", sentence: a },
    ]),
  ).toEqual([
    { sentence: a, at: "3", times: 2 },
    { sentence: b, at: "2", times: 1 },
  ]);
});

test("a pool whose quotas keep GPUs idle is not called broken", () => {
  expect(verdictWords(20, 0, 0)).toEqual({ kept: true, words: "Held in all 20 snapshots" });
  expect(verdictWords(20, 5, 5)).toEqual({ kept: undefined, words: "Quotas keep GPUs idle in 5 of 20" });
  expect(verdictWords(20, 5, 3)).toEqual({
    kept: false,
    words: "Broken in 2 of 20. Quotas keep GPUs idle in 3 of 20",
  });
  expect(verdictWords(20, 5, 0)).toEqual({ kept: false, words: "Broken in 5 of 20" });
});
