import { expect, test } from "vitest";

import { makeGpu } from "../../testing/makers";
import { fillOf, tenantColours } from "./colouring";

const heldBy = (tenant: string) =>
  makeGpu({ busy: true, jobs: [{ id: 7, name: "train", owner: "ada", tenant }] });

test("each tenant has a colour of its own, which does not depend on the order of the list", () => {
  const colours = tenantColours(["vision", "nlp", "vision"]);
  expect([...colours.keys()]).toEqual(["nlp", "vision"]);
  expect(new Set(colours.values()).size).toBe(2);
  expect(tenantColours(["nlp", "vision"])).toEqual(colours);
});

test("a GPU has its tenant's colour; one whose job is hidden, or that is unhealthy, keeps its look", () => {
  const colours = tenantColours(["nlp"]);
  expect(fillOf(heldBy("nlp"), "busy", "tenant", colours)).toEqual({ background: colours.get("nlp") });
  expect(fillOf(makeGpu({ busy: true }), "busy", "tenant", colours)).toBeUndefined();
  expect(fillOf(heldBy("nlp"), "unhealthy", "tenant", colours)).toBeUndefined();
});
