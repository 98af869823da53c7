import { expect, test } from "vitest";

import { parseSearch, pick, safeNext, stringifySearch } from "./search";

test("filters are plain text in the address", () => {
  expect(stringifySearch({ state: "queued", mine: "1", search: "42", empty: "", no: undefined })).toBe(
    "?state=queued&mine=1&search=42",
  );
  expect(parseSearch("?state=queued&search=42")).toEqual({ state: "queued", search: "42" });
  expect(stringifySearch({})).toBe("");
});

test("unknown keys of an address are left out", () => {
  expect(pick({ state: "queued", evil: "x", vc: 3 }, "state", "vc")).toEqual({ state: "queued" });
});

test.each([
  ["/jobs/7?tab=spec", "/jobs/7?tab=spec"],
  [undefined, "/"],
  ["https://evil.example", "/"],
  ["//evil.example", "/"],
  ["/\\evil.example", "/"],
  ["/signin?next=/jobs", "/"],
])("after signing in, %s leads to %s", (next, target) => {
  expect(safeNext(next)).toBe(target);
});
