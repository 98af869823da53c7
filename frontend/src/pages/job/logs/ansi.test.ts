import { expect, test } from "vitest";

import { parseAnsi, plainText } from "./ansi";

const ESC = "\u001b";

test("it turns colours into styled pieces", () => {
  expect(parseAnsi(`${ESC}[1;31mbad${ESC}[0m fine`)).toEqual([
    { text: "bad", bold: true, color: 1 },
    { text: " fine" },
  ]);
});

test("it knows bright colours, backgrounds, 256 colours and true colour", () => {
  expect(parseAnsi(`${ESC}[92ma${ESC}[44mb`)).toEqual([
    { text: "a", color: 10 },
    { text: "b", color: 10, background: 4 },
  ]);
  expect(parseAnsi(`${ESC}[38;5;9mx`)).toEqual([{ text: "x", color: 9 }]);
  expect(parseAnsi(`${ESC}[38;5;196mx`)).toEqual([{ text: "x", color: "rgb(255 0 0)" }]);
  expect(parseAnsi(`${ESC}[48;2;1;2;3mx`)).toEqual([{ text: "x", background: "rgb(1 2 3)" }]);
});

test("it takes single styles back", () => {
  expect(parseAnsi(`${ESC}[1;4;32mx${ESC}[22;24;39my`)).toEqual([
    { text: "x", bold: true, underline: true, color: 2 },
    { text: "y" },
  ]);
});

test("it obeys nothing but colours", () => {
  const line = `${ESC}[2J${ESC}[10;3Hmoved ${ESC}]0;title\u0007on${ESC}[?25l \u0008bell\u0007`;
  expect(plainText(line)).toBe("moved on bell");
  expect(
    parseAnsi(line)
      .map((piece) => piece.text)
      .join(""),
  ).toBe("moved on bell");
});

test("markup stays text", () => {
  expect(parseAnsi("<script>alert(1)</script>")).toEqual([{ text: "<script>alert(1)</script>" }]);
});

test("a sequence that never ends costs nothing but itself", () => {
  expect(plainText(`ok ${ESC}]0;never ends`)).toBe("ok ");
});

const DIRECTION_MARKS = [
  0x061c, 0x200e, 0x200f, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069,
];

test.each(DIRECTION_MARKS)(
  "it shows a character that changes the direction of text as an escape: %i",
  (code) => {
    const line = `a${String.fromCharCode(code)}b`;
    const shown = `a\\u${code.toString(16).padStart(4, "0")}b`;
    expect(plainText(line)).toBe(shown);
    expect(parseAnsi(line)).toEqual([{ text: shown }]);
    expect(parseAnsi(`${ESC}[31m${line}`)).toEqual([{ text: shown, color: 1 }]);
  },
);
