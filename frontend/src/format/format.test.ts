import { expect, test } from "vitest";

import { bytes, ordinal, percent, plural } from "./amount";
import { ago, duration, fineDuration } from "./time";
import { holdWords, humanize, reasonWords, sentence } from "./words";

test.each([
  [0, "0s"],
  [59.9, "59s"],
  [252, "4m 12s"],
  [11_220, "3h 07m"],
  [187_200, "2d 4h"],
  [-5, "0s"],
])("%d seconds read %s", (seconds, text) => {
  expect(duration(seconds)).toBe(text);
});

test("short times keep a decimal", () => {
  expect(fineDuration(1.25)).toBe("1.3s");
  expect(fineDuration(12.9)).toBe("12s");
});

test("times ago are short, and times ahead are told apart", () => {
  const now = Date.UTC(2026, 0, 2);
  expect(ago(new Date(now - 2000).toISOString(), now)).toBe("just now");
  expect(ago(new Date(now - 240_000).toISOString(), now)).toBe("4m ago");
  expect(ago(new Date(now + 3 * 86_400_000).toISOString(), now)).toBe("in 3d");
});

test.each([
  [0, "0 B"],
  [1023, "1023 B"],
  [1536, "1.5 KiB"],
  [1024 ** 4, "1 TiB"],
  [250 * 1024 ** 2, "250 MiB"],
])("%d bytes read %s", (size, text) => {
  expect(bytes(size)).toBe(text);
});

test.each([
  [1, "1st"],
  [2, "2nd"],
  [3, "3rd"],
  [11, "11th"],
  [112, "112th"],
  [21, "21st"],
])("place %d reads %s", (value, text) => {
  expect(ordinal(value)).toBe(text);
});

test("counts and shares read as people say them", () => {
  expect(plural(1, "GPU")).toBe("1 GPU");
  expect(plural(1200, "job")).toBe("1,200 jobs");
  expect(percent(1, 3)).toBe(33);
  expect(percent(1, 0)).toBe(0);
});

test("names of the scheduler read as words, also those that are new here", () => {
  expect(holdWords("no_free_gpus")).toBe("No free GPUs");
  expect(holdWords("some_new_reason")).toBe("Some new reason");
  expect(reasonWords("node_lost")).toBe("Node lost");
  expect(sentence("ask an operator")).toBe("Ask an operator");
  expect(sentence("vision uses 4 of its 4 A100", ["vision"])).toBe("vision uses 4 of its 4 A100");
  expect(humanize("gpus_per_node")).toBe("GPUs per node");
});
