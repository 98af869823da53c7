import { expect, test } from "vitest";

import { makeGpu } from "../../testing/makers";
import { kindsIn, linkKind, numaWords } from "./links";

test.each([
  [180, "NV18", "18 NVLinks"],
  [10, "NV1", "1 NVLink"],
  [5, "PIX", "One PCIe switch"],
  [4, "PXB", "Several PCIe switches"],
  [3, "PHB", "PCIe host bridge"],
  [2, "NODE", "Same NUMA node"],
  [1, "SYS", "Across sockets"],
  [0, "?", "Not known"],
])("a score of %d is %s", (score, short, words) => {
  expect(linkKind(score)).toMatchObject({ score, short, words });
});

test("the legend has each kind once, the closest first, and not a GPU with itself", () => {
  const links = [
    [0, 40, 1],
    [40, 0, 5],
    [1, 5, 0],
  ];
  expect(kindsIn(links).map((kind) => kind.short)).toEqual(["NV4", "PIX", "SYS"]);
});

test("GPUs are named by their NUMA nodes where these are known of all", () => {
  const gpus = (...numa: (number | null)[]) => numa.map((node, index) => makeGpu({ index, numa_node: node }));
  expect(numaWords(gpus(0, 0, 0, 1))).toBe("GPUs 0 to 2 on NUMA node 0, GPU 3 on NUMA node 1");
  expect(numaWords(gpus(0, 1, 0, 1))).toBe("GPUs 0 and 2 on NUMA node 0, GPUs 1 and 3 on NUMA node 1");
  expect(numaWords(gpus(0, null))).toBe("");
});
