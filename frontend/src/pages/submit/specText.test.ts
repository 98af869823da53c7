import { expect, test } from "vitest";

import { changesOf, parseSpec, rangeOf, setField, specToText, withoutDefaults } from "./specText";

test("it reads a spec", () => {
  expect(parseSpec("gpus: 4\ncommand: run\n").spec).toEqual({ gpus: 4, command: "run" });
  expect(parseSpec("").spec).toEqual({});
});

test("it says where text is not YAML", () => {
  const { error } = parseSpec("gpus: 4\nenv: [a\n");
  expect(error?.message).toBe("Line 2 ends before its [ is closed");
  expect(error?.from).toBeGreaterThan(0);
});

test.each([
  ["command: x\noutp", "Line 2 is not finished: key: value"],
  ["command: x\ngpus 2\nname: y", "Line 2 is not finished: key: value"],
  ["a: b: c", "Line 1 has a second colon: put a value with a colon in quotes"],
  ['a: "x\nb: 2', "Line 2 ends before its quote is closed"],
  ["a:\n  b: 1\n c: 2", "Line 3 is indented differently from the lines that it belongs to"],
  ["a: 1\n\tb: 2", "Line 2 is indented with a tab: use spaces"],
  ["a: 1\na: 2", "Line 2 has a key that stands above already: write each key once"],
  ["a: @b", "Line 1 has a value that begins with a special character: put the value in quotes"],
  ["a: 1\n---\nb: 2", "Line 2 begins a second document: a spec is one document"],
  ["a: *b", "An alias (*name) stands for nothing: write its value out, or put it in quotes"],
])("what is wrong with %j is said in words for its writer", (text, words) => {
  expect(parseSpec(text).error?.message).toBe(words);
});

test("it refuses a spec that is a list or a word", () => {
  expect(parseSpec("- a\n").spec).toBeNull();
  expect(parseSpec("hello").spec).toBeNull();
});

test("a change leaves comments and unknown keys as they are", () => {
  const text = "# mine\ngpus: 4 # four\nfuture: {x: 1}\n";
  expect(setField(text, ["gpus"], 8)).toBe("# mine\ngpus: 8 # four\nfuture: { x: 1 }\n");
});

test("a new key goes to its usual place", () => {
  expect(setField("name: a\ncommand: run\n", ["gpus"], 2)).toBe("name: a\ncommand: run\ngpus: 2\n");
});

test("an empty value takes the key away, and its parent when nothing is left in it", () => {
  expect(setField("a: 1\nname: x\n", ["name"], "")).toBe("a: 1\n");
  expect(setField("a: 1\nretry:\n  max: 3\n", ["retry", "max"], undefined)).toBe("a: 1\n");
  expect(setField("name: x\n", ["name"], "")).toBe("");
});

test("a part that is not there yet is made", () => {
  expect(parseSpec(setField("gpus: 1\n", ["retry", "max"], 5)).spec).toEqual({ gpus: 1, retry: { max: 5 } });
  expect(parseSpec(setField("", ["name"], "x")).spec).toEqual({ name: "x" });
});

test("text of several lines is a block, and a single line is plain again", () => {
  const block = setField("command: run\n", ["command"], "one\ntwo\n");
  expect(block).toBe("command: |\n  one\n  two\n");
  expect(setField(block, ["command"], "one")).toBe("command: one\n");
});

test.each(["yes: no # x", " spaced ", "123", "true", "a: b", "#", "- x", "'", '"', "\\n", "", "é\u00a0"])(
  "any text comes back as it was typed: %j",
  (value) => {
    const { spec } = parseSpec(setField("gpus: 1\n", ["command"], value));
    expect(spec?.command ?? "").toBe(value);
  },
);

test("text that is not YAML is not touched", () => {
  expect(setField("env: [a\n", ["name"], "x")).toBe("env: [a\n");
});

test("it finds where a field stands", () => {
  const text = "gpus: 1\ncheckpoint:\n  grace: x\n";
  const at = rangeOf(text, "checkpoint.grace");
  expect(text.slice(at?.from, at?.to)).toBe("grace: x");
  const parent = rangeOf(text, "checkpoint.signal");
  expect(text.slice(parent?.from).startsWith("checkpoint")).toBe(true);
  expect(rangeOf(text, "memory")).toBeNull();
});

test("a stored spec is shown without default values", () => {
  const schema = {
    properties: { nodes: { default: 1 }, retry: { default: { max: 3, on: ["a"] } }, gpus: {} },
  };
  const spec = { gpus: "1", nodes: 1, retry: { max: 3, on: ["a"] }, env: {}, command: "x" };
  expect(withoutDefaults(spec, schema)).toEqual({ gpus: "1", command: "x" });
  expect(withoutDefaults({ ...spec, retry: { max: 1, on: ["a"] } }, schema)).toHaveProperty("retry");
});

test("it writes keys in their usual order", () => {
  expect(specToText({ command: "x", gpus: 1, name: "n" })).toBe("name: n\ncommand: x\ngpus: 1\n");
});

test("what a clone changes is told by key, and of a sweep by its keys", () => {
  const from = {
    name: "a",
    gpus: 1,
    env: { A: "1" },
    sweep: { seed: 0, members: 9, params: { lr: [1, 2] } },
  };
  const to = { name: "a", gpus: 2, time: "1h", sweep: { members: 27, params: { lr: [1, 2] } } };
  expect(changesOf(from, to)).toEqual({
    gpus: 2,
    env: null,
    time: "1h",
    sweep: { seed: null, members: 27 },
  });
  expect(changesOf(from, from)).toEqual({});
});

test("a parameter of a sweep stands on one line", () => {
  const sweep = { metric: "loss", params: { lr: { log: [0.0001, 0.1] }, batch: [32, 64] } };
  const text = "sweep:\n  metric: loss\n  params:\n    lr: { log: [ 0.0001, 0.1 ] }\n    batch: [ 32, 64 ]\n";
  expect(specToText({ sweep })).toBe(text);
  expect(setField("", ["sweep"], sweep)).toBe(text);
});
