import { expect, test } from "vitest";

import { makeGpu, makeNode } from "../../testing/makers";
import { concerns } from "./attention";

test("nodes that take no jobs come before those that lost a GPU, and a healthy node is left out", () => {
  const sick = makeGpu({ healthy: false, health_why: "Xid 79" });
  expect(
    concerns([
      makeNode({ name: "n1", gpus: [sick, makeGpu()] }),
      makeNode({ name: "n2", gpus: [makeGpu()] }),
      makeNode({ name: "n10", admin: "draining", reason: "new fan" }),
      makeNode({ name: "n9", health: "down", gpus: [sick] }),
    ]),
  ).toEqual([
    { node: "n9", closed: true, why: "Down" },
    { node: "n10", closed: true, why: "Draining: new fan" },
    { node: "n1", closed: false, why: "1 unhealthy GPU: Xid 79" },
  ]);
});
