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
