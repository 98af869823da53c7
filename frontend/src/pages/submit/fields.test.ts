import { webcrypto } from "node:crypto";
import { expect, test, vi } from "vitest";

import { kindsOf, namesOf, readLines, readList, writeLines } from "./fields";
import { sha256, sha256Plain } from "./sha256";

// The browser of the tests lacks `subtle`, which browsers have on pages that come over TLS.
vi.stubGlobal("crypto", webcrypto);

test("pairs and lines turn into each other", () => {
  const values = { A: "1", B: "x=y" };
  expect(readLines(writeLines(values))).toEqual(values);
  expect(readLines("A=1\nhalf\n=no")).toEqual({ A: "1" });
});

test("a list is its lines, each once", () => {
  expect(readList(" a/** \n\n*.csv\na/**\n")).toEqual(["a/**", "*.csv"]);
});

test("kinds of events are shown where each channel has the same", () => {
  expect(kindsOf(undefined)).toEqual([]);
  expect(kindsOf(["ended"])).toEqual(["ended"]);
  expect(kindsOf({ mail: ["failed"], webhook: ["failed"] })).toEqual(["failed"]);
  expect(kindsOf({ mail: ["failed"], webhook: [] })).toBeNull();
});

test("names are the texts of a list, each once", () => {
  expect(namesOf(["gpu01", "gpu02", "gpu01", ""])).toEqual(["gpu01", "gpu02"]);
  expect(namesOf("gpu01")).toEqual([]);
  expect(namesOf(undefined)).toEqual([]);
});

const bytes = (text: string) => new TextEncoder().encode(text);

test("digests are those of the standard", async () => {
  const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  expect(sha256Plain(bytes("abc"))).toBe(abc);
  expect(sha256Plain(bytes(""))).toBe("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  expect(await sha256(bytes("abc"))).toBe(abc);
});

test("digests agree with the platform's own at every length around a block", async () => {
  for (const length of [1, 54, 55, 56, 57, 63, 64, 65, 119, 120, 1000]) {
    const data = bytes("m".repeat(length));
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", data));
    const expected = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
    expect(sha256Plain(data)).toBe(expected);
  }
});
