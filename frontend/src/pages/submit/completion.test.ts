import { expect, test } from "vitest";

import { pathAbove, suggest } from "./completion";

const SCHEMA = {
  properties: {
    gpus: {
      description: "GPUs per node.",
      oneOf: [{ anyOf: [{ type: "integer" }, { type: "string" }] }, { $ref: "#/$defs/AnyOf" }],
    },
    priority: { enum: ["low", "normal"] },
    slurm_env: { type: "boolean" },
    memory: { anyOf: [{ type: "string" }, { type: "null" }] },
    checkpoint: { $ref: "#/$defs/Checkpoint" },
  },
  $defs: {
    AnyOf: { properties: { any_of: { type: "array" } } },
    Checkpoint: { properties: { signal: { enum: ["TERM", "INT"] }, grace: {} } },
  },
};

const labels = (above: string[], line: string) =>
  suggest(SCHEMA, above, line)?.options.map((option) => option.label) ?? [];

test("it offers the keys of a spec", () => {
  expect(labels([], "g")).toEqual(["gpus", "priority", "slurm_env", "memory", "checkpoint"]);
  expect(suggest(SCHEMA, [], "g")?.typed).toBe("g");
});

test("it offers the keys of the part that the cursor is in", () => {
  expect(labels(["checkpoint:"], "  s")).toEqual(["signal", "grace"]);
});

test("it offers the keys of a form that stands beside a plain value", () => {
  expect(labels(["gpus:"], "  a")).toEqual(["any_of"]);
});

test("it offers the values that the schema lists", () => {
  expect(labels([], "priority: ")).toEqual(["low", "normal"]);
  expect(labels([], "slurm_env: t")).toEqual(["true", "false"]);
  expect(labels(["checkpoint:"], "  signal: ")).toEqual(["TERM", "INT"]);
});

test("it offers nothing where anything can stand", () => {
  expect(labels([], "memory: 4")).toEqual([]);
  expect(labels(["env:"], "  ANY")).toEqual([]);
});

test("it finds the way to a line by its indentation", () => {
  expect(pathAbove(["a:", "  b:", "    c: 1", "  d: 2"], 4)).toEqual(["a", "d"]);
  expect(pathAbove(["a:", "  b:"], 4)).toEqual(["a", "b"]);
  expect(pathAbove(["a: 1"], 0)).toEqual([]);
});
