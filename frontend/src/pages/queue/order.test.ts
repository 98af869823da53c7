import { expect, test } from "vitest";

import { makeQueueEntry } from "../../testing/makers";
import { neighbourOf, swapped } from "./order";

const ada = (id: number, changes = {}) =>
  makeQueueEntry({ id, position: id, owner: "ada", movable: true, ...changes });
const jobs = [
  ada(1),
  makeQueueEntry({ id: 2, position: 2, owner: "bob" }),
  ada(3, { class: "opportunistic" }),
  ada(4, { bumped: true, movable: false }),
  ada(5),
];
const [first, other, , , last] = jobs as [
  (typeof jobs)[0],
  (typeof jobs)[0],
  (typeof jobs)[0],
  (typeof jobs)[0],
  (typeof jobs)[0],
];

test("a job moves past the next job of its owner and class that may move", () => {
  expect(neighbourOf(jobs, first, "down")?.id).toBe(5);
  expect(neighbourOf(jobs, last, "up")?.id).toBe(1);
  expect(neighbourOf(jobs, first, "up")).toBeNull();
  expect(neighbourOf(jobs, other, "up")).toBeNull();
});

test("two jobs take each other's places and no other job moves", () => {
  expect(swapped(jobs, first, last).map(({ id, position }) => [id, position])).toEqual([
    [5, 1],
    [2, 2],
    [3, 3],
    [4, 4],
    [1, 5],
  ]);
});
