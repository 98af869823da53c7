import { expect, test } from "vitest";

import { readGpus, writeGpus } from "./gpus";

const none = { count: 0, type: "" };
const a100 = { count: 4, type: "A100" };
const v100 = { count: 8, type: "V100" };
const custom = { first: none, second: null, custom: true };

test.each([
  [4, { first: { count: 4, type: "" }, second: null, custom: false }],
  ["4", { first: { count: 4, type: "" }, second: null, custom: false }],
  ["A100:4", { first: a100, second: null, custom: false }],
  [undefined, { first: none, second: null, custom: false }],
  [{ any_of: ["A100:4"] }, { first: a100, second: null, custom: false }],
  [{ any_of: ["V100:8", "A100:4"] }, { first: v100, second: a100, custom: false }],
  [{ any_of: ["A100:4", "V100:8", "T4:16"] }, custom],
  [{ any_of: ["A100:4", { type: "V100" }] }, custom],
  [{ any_of: [] }, custom],
  [{ any_of: "A100:4" }, custom],
  [{ vram: "40GB" }, custom],
  ["many", custom],
])("gpus %j fill the form", (value, choices) => {
  expect(readGpus(value)).toEqual(choices);
});

test("the form writes gpus as people write them", () => {
  expect(writeGpus({ count: 4, type: "" })).toBe(4);
  expect(writeGpus(a100)).toBe("A100:4");
  expect(writeGpus({ count: 0, type: "A100" }, v100)).toBeUndefined();
  expect(writeGpus(a100, v100)).toEqual({ any_of: ["A100:4", "V100:8"] });
  expect(writeGpus({ count: 4, type: "" }, v100)).toBe(4);
  expect(writeGpus(a100, { count: 0, type: "V100" })).toBe("A100:4");
});
