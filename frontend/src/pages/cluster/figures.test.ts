import { expect, test } from "vitest";

import type { Gpu, Node } from "../../api/types";
import { makeGpu, makeNode } from "../../testing/makers";
import { colourIndex, gpusByType, lookOf, meanUtilization, rampStep, type GpuLook } from "./figures";

const MINE = { id: 1, name: "x", owner: "ada", tenant: "acme" };

type Case = [string, Partial<Gpu>, Partial<Node>, GpuLook];

test.each<Case>([
  ["a free GPU", {}, {}, "free"],
  ["my GPU", { busy: true, jobs: [MINE] }, {}, "mine"],
  ["a GPU that I share", { busy: true, jobs: [{ ...MINE, owner: "bob" }, MINE] }, {}, "mine"],
  ["another user's GPU", { busy: true, jobs: [{ ...MINE, owner: "bob" }] }, {}, "busy"],
  ["a GPU of a job I may not see", { busy: true }, {}, "busy"],
  ["a broken GPU", { healthy: false, busy: true, jobs: [MINE] }, {}, "unhealthy"],
  ["a GPU of a node that is down", {}, { health: "down" }, "unhealthy"],
  ["a free GPU of a cordoned node", {}, { admin: "cordoned" }, "closed"],
  ["a free GPU of a node that is silent", {}, { health: "suspect" }, "closed"],
  ["my GPU on a node that is drained", { busy: true, jobs: [MINE] }, { admin: "draining" }, "mine"],
])("%s looks like it", (_, gpu, node, look) => {
  expect(lookOf(makeGpu(gpu), makeNode(node), "ada")).toBe(look);
});

test("GPUs are counted by type", () => {
  const nodes = [
    makeNode({ gpus: [makeGpu({ type: "V100" }), makeGpu({ type: "V100", busy: true })] }),
    makeNode({ gpus: [makeGpu({ busy: true })] }),
  ];
  expect(gpusByType(nodes)).toEqual([
    { name: "A100", total: 1, used: 1 },
    { name: "V100", total: 2, used: 1 },
  ]);
});

test("the mean counts only GPUs that tell", () => {
  expect(meanUtilization([makeGpu({ utilization: 50 }), makeGpu({ utilization: 100 }), makeGpu()])).toBe(75);
  expect(meanUtilization([makeGpu()])).toBeNull();
});

test("a job keeps its colour, and jobs in a row get different ones", () => {
  expect(colourIndex(42, 12)).toBe(colourIndex(42, 12));
  const row = [100, 101, 102, 103].map((id) => colourIndex(id, 12));
  expect(new Set(row).size).toBe(4);
  for (let id = 0; id < 5000; id += 1) expect(colourIndex(id, 12)).toBeLessThan(12);
});

test("the ramp has five steps", () => {
  expect([0, 19, 20, 99, 100].map(rampStep)).toEqual([0, 0, 1, 4, 4]);
});
