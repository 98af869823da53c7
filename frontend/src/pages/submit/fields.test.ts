import { webcrypto } from "node:crypto";
import { expect, test, vi } from "vitest";

import { readGpus, readLines, writeGpus, writeLines } from "./fields";
import { sha256, sha256Plain } from "./sha256";

// The browser of the tests lacks `subtle`, which browsers have on pages that come over TLS.
vi.stubGlobal("crypto", webcrypto);

test.each([
  [4, { count: 4, type: "", custom: false }],
  ["4", { count: 4, type: "", custom: false }],
  ["A100:8", { count: 8, type: "A100", custom: false }],
  [undefined, { count: 0, type: "", custom: false }],
  [{ vram: "40GB" }, { count: 0, type: "", custom: true }],
  ["many", { count: 0, type: "", custom: true }],
])("gpus %j fill the form", (value, choice) => {
  expect(readGpus(value)).toEqual(choice);
});

test("the form writes gpus as people write them", () => {
  expect(writeGpus(4, "")).toBe(4);
  expect(writeGpus(4, "A100")).toBe("A100:4");
  expect(writeGpus(0, "A100")).toBeUndefined();
});

test("pairs and lines turn into each other", () => {
  const values = { A: "1", B: "x=y" };
  expect(readLines(writeLines(values))).toEqual(values);
  expect(readLines("A=1\nhalf\n=no")).toEqual({ A: "1" });
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
