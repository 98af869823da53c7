import { expect, test } from "vitest";

import { makeCell, makeVcCells, makeVirtualCell } from "../../testing/makers";
import { boxesWords, boxWords, depthOf, physicalBox, rowsOf, virtualBoxes } from "./boxes";

const pair = (number: number) =>
  makeCell({ address: `r1/n1/${number}`, type: "A100-PAIR", gpus: 2, used: number === 0 ? 2 : 0 });
const RACK = physicalBox(
  makeCell({
    address: "r1",
    type: "A100-RACK",
    gpus: 16,
    children: [makeCell({ children: [pair(0), pair(1)] }), makeCell({ address: "r1/n2" })],
  }),
);

test("what is lent of a virtual cell is what opportunistic jobs hold of the physical one", () => {
  const cells = makeVcCells({
    virtual: [
      makeVirtualCell({ id: "a", physical: "r1/n1", used: 2, state: "used", jobs: [7] }),
      makeVirtualCell({ id: "b" }),
    ],
  });
  const physical = [makeCell({ address: "r1", children: [makeCell({ opportunistic: 3 })] })];
  const [first, second] = virtualBoxes(cells, physical);
  expect([first?.lent, second?.lent]).toEqual([3, 0]);
  expect(first && boxWords(first)).toBe(
    "A100-NODE a, 8 GPUs, in use, 2 used by guaranteed jobs, 3 used by opportunistic jobs, on r1/n1, job 7",
  );
});

test("levels are shown as long as there are few enough boxes, and the first always is", () => {
  expect(depthOf([RACK])).toBe(3);
  expect(depthOf([RACK], 3)).toBe(2);
  expect(depthOf([RACK], 0)).toBe(1);
  expect(depthOf([])).toBe(0);
  expect(rowsOf([RACK], 2).map(({ box, depth }) => [box.name, depth])).toEqual([
    ["r1", 0],
    ["r1/n1", 1],
    ["r1/n2", 1],
  ]);
});

test("cells of a thousand nodes are few boxes", () => {
  const racks = Array.from({ length: 32 }, (_, rack) =>
    makeCell({
      address: `r${rack}`,
      children: Array.from({ length: 32 }, (_, node) =>
        makeCell({ address: `r${rack}/n${node}`, children: [pair(0), pair(1), pair(2), pair(3)] }),
      ),
    }),
  ).map(physicalBox);
  expect(rowsOf(racks, depthOf(racks))).toHaveLength(32 + 1024);
});

test("all boxes are one sentence", () => {
  const doomed = { ...RACK, trouble: "doomed" as const, used: 4, lent: 2 };
  expect(boxesWords([RACK, doomed])).toBe(
    "2 cells with 32 GPUs: 4 used by guaranteed jobs, 2 by opportunistic jobs; 1 cell bad or doomed.",
  );
});
