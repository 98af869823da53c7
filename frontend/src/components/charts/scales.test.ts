import { expect, test } from "vitest";

import { choiceScale, linearScale, logScale, scaleOf, turned } from "./scales";

const labels = (scale: { ticks: readonly { label: string }[] }) => scale.ticks.map((tick) => tick.label);

test("a linear axis has round ticks and holds its values", () => {
  const scale = linearScale(0, 0.5);
  expect(labels(scale)).toEqual(["0", "0.1", "0.2", "0.3", "0.4", "0.5"]);
  expect(scale.place(0.25)).toBe(0.5);
  expect(scale.place(7)).toBe(1);
  expect(scale.place("0.25")).toBeNull();
  expect(scale.place(Number.NaN)).toBeNull();
});

test("a logarithmic axis names powers of ten, or its ends where there are none between", () => {
  const scale = logScale(1e-5, 1e-1);
  expect(labels(scale)).toEqual(["1e-5", "1e-4", "0.001", "0.01", "0.1"]);
  expect(scale.place(1e-3)).toBeCloseTo(0.5);
  expect(scale.place(0)).toBeNull();
  expect(labels(logScale(2, 8))).toEqual(["2", "8"]);
});

test("choices stand at equal distances in their order, of many only some are named", () => {
  const scale = choiceScale(["adam", 32, true]);
  expect(labels(scale)).toEqual(["adam", "32", "true"]);
  expect([scale.place("adam"), scale.place(32), scale.place(true), scale.place("sgd")]).toEqual([
    0,
    0.5,
    1,
    null,
  ]);
  expect(labels(choiceScale(Array.from({ length: 30 }, (_, index) => index))).length).toBeLessThanOrEqual(8);
});

test("an axis of values is logarithmic where they are of several orders of magnitude", () => {
  expect(scaleOf([0.1, 100]).place(3.1623)).toBeCloseTo(0.5, 3);
  expect(scaleOf([1, 3]).place(2)).toBe(0.5);
  expect(scaleOf([4]).place(4)).toBe(0.5);
  expect(scaleOf([]).place(1)).toBeNull();
  expect(turned(scaleOf([1, 3])).place(1)).toBe(1);
});
