import { expect, test } from "vitest";

import { makeMember, makeSweep } from "../../testing/makers";
import { columnsOf, sorted } from "./members";
import { axesOf, linesOf, nearest } from "./parallel";
import { memberWords, savedWords } from "./words";

const SWEEP = makeSweep();
const MEMBERS = [
  makeMember({ member: 1, params: { lr: 1e-4, batch: 32 }, value: 0.9 }),
  makeMember({ member: 2, params: { lr: 1e-2, batch: 64 }, value: 0.1, step: 27, state: "succeeded" }),
  makeMember({ member: 3, params: { lr: 1e-1, batch: 128 } }),
  makeMember({ member: 4, params: { lr: 1e-3, batch: 128 }, value: 0.5, state: "stopped" }),
];
const AXES = axesOf(SWEEP, MEMBERS);
const LINES = linesOf(SWEEP, AXES, MEMBERS);

test("the axes are the parameters as the spec gives them, and the metric with the better end at the top", () => {
  expect(AXES.map(({ name }) => name)).toEqual(["lr", "batch", "loss"]);
  expect(AXES[0]?.scale.place(1e-3)).toBeCloseTo(1 / 3);
  expect(AXES[1]?.scale.place(64)).toBe(0.5);
  expect(AXES[2]?.scale.place(0.1)).toBe(1);
  expect(axesOf({ ...SWEEP, goal: "max" }, MEMBERS)[2]?.scale.place(0.1)).toBe(0);
});

test("the lines stand in the order in which they are drawn, and one without a value ends before the metric", () => {
  expect(LINES.map(({ member, band }) => [member.member, band])).toEqual([
    [3, -1],
    [1, 1],
    [4, 2],
    [2, 3],
  ]);
  expect(LINES[0]?.places).toHaveLength(2);
});

test("the line nearest to a point between two axes is found, and none far from all", () => {
  const [, worst, , best] = LINES;
  expect(nearest(LINES, 2, 1, 0.05)).toBe(best);
  expect(nearest(LINES, 0.5, ((worst?.places[0] ?? 0) + (worst?.places[1] ?? 0)) / 2 + 0.01, 0.05)).toBe(
    worst,
  );
  expect(nearest(LINES, 1.99, 0.3, 0.05)).toBeNull();
  expect(nearest([], 0, 0, 1)).toBeNull();
});

test("a parameter whose range the spec does not tell has the axis of its values", () => {
  const sweep = { ...SWEEP, spec: {} };
  const members = [
    makeMember({ params: { lr: 1, batch: "a" } }),
    makeMember({ params: { lr: 3, batch: "b" } }),
  ];
  const [lr, batch] = axesOf(sweep, members);
  expect(lr?.scale.place(2)).toBe(0.5);
  expect(batch?.scale.ticks.map(({ label }) => label)).toEqual(["a", "b"]);
});

test("the table sorts by any column, and members without a value come last of the metric", () => {
  const columns = columnsOf(SWEEP);
  const by = (column: string, descending = false) =>
    sorted(columns, MEMBERS, { column, descending }).map(({ member }) => member);
  expect(by("value")).toEqual([2, 4, 1, 3]);
  expect(by("param lr")).toEqual([1, 4, 2, 3]);
  expect(by("param batch", true)).toEqual([3, 4, 2, 1]);
  expect(by("state")).toEqual([1, 3, 2, 4]);
});

test("what stopping saved is a sentence", () => {
  expect(savedWords(SWEEP)).toBe("Stopping 1 member early saved 41.0 GPU-hours.");
  const none = { ...SWEEP.members, stopped: 0 };
  expect(savedWords(makeSweep({ members: none }))).toBe("No member has been stopped early yet.");
  expect(savedWords(makeSweep({ members: none, state: "failed" }))).toBe("No member was stopped early.");
  expect(savedWords(makeSweep({ members: none, rungs: [] }))).toBe("");
});

test("a member is told in a line", () => {
  expect(memberWords(MEMBERS[1] ?? makeMember(), "loss")).toBe(
    "Member 2: loss 0.1 at step 27; lr 0.01, batch 64; succeeded",
  );
  expect(memberWords(makeMember({ state: "stopped", why: "too slow" }), "loss")).toMatch(
    /; stopped early: too slow$/,
  );
  expect(memberWords(makeMember(), "loss")).toBe("Member 1: no loss yet; lr 0.001, batch 32; running");
});
