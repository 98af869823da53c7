import { beforeEach, expect, test, vi } from "vitest";

import { LogBuffer, MAX_LINES } from "./buffer";

// Lines are shown once a frame; here every frame comes at once.
beforeEach(() => {
  vi.stubGlobal("requestAnimationFrame", (callback: FrameRequestCallback) => {
    callback(0);
    return 0;
  });
});

function read(...parts: [rank: number, text: string][]): string[] {
  const buffer = new LogBuffer();
  for (const [rank, text] of parts) buffer.append(rank, text);
  return buffer.lines.map((line) => (line.rank === 0 ? line.text : `${line.rank}>${line.text}`));
}

test("it joins a line that came in parts", () => {
  expect(read([0, "hel"], [0, "lo\nwor"], [0, "ld\n"])).toEqual(["hello", "world"]);
});

test("it shows a line before its end has come", () => {
  expect(read([0, "loading"])).toEqual(["loading"]);
});

test("it keeps the unfinished lines of ranks apart", () => {
  expect(read([0, "a"], [1, "b"], [0, "A\n"], [1, "B\n"])).toEqual(["aA", "1>bB"]);
});

test("a carriage return starts the line over, as a progress bar wants it", () => {
  expect(read([0, "10%\r20%"], [0, "\r30%"], [0, "\rdone\n"])).toEqual(["done"]);
});

test("a line end of two characters is one line end, also when it is cut", () => {
  expect(read([0, "one\r\ntwo\r"], [0, "\nthree\r\n"])).toEqual(["one", "two", "three"]);
});

test("empty lines count", () => {
  expect(read([0, "a\n\nb\n"])).toEqual(["a", "", "b"]);
});

test("a line without end is cut", () => {
  const lines = read([0, "x".repeat(20_000)], [0, "yyy\n"]);
  expect(lines.map((line) => line.length)).toEqual([8192, 8192, 20_000 - 2 * 8192 + 3]);
});

test("the oldest lines go when there are too many, and the numbers go on", () => {
  const buffer = new LogBuffer();
  buffer.append(0, "x\n".repeat(MAX_LINES * 1.2));
  expect(buffer.lines.length).toBeLessThanOrEqual(MAX_LINES * 1.1);
  expect(buffer.lines.length + buffer.dropped).toBe(MAX_LINES * 1.2);
  expect(buffer.lines[0]?.number).toBe(buffer.dropped + 1);
});

test("a line that went away does not come back when its end arrives", () => {
  const buffer = new LogBuffer();
  buffer.append(1, "begun");
  buffer.append(0, "x\n".repeat(MAX_LINES * 1.2));
  buffer.append(1, " and ended\n");
  expect(buffer.lines.some((line) => line.text.includes("begun"))).toBe(false);
});

test("a reading that begins inside the log leaves out the rest of the line it fell into", () => {
  const buffer = new LogBuffer();
  buffer.clear(true);
  buffer.append(0, "f a line");
  buffer.append(0, " that was cut\nwhole\n");
  expect(buffer.lines.map((line) => line.text)).toEqual(["whole"]);
});

test("what was shown once does not change under who looks at it", () => {
  const buffer = new LogBuffer();
  buffer.append(0, "one\n");
  const before = buffer.lines;
  buffer.append(0, "two\n");
  expect(before).toHaveLength(1);
  expect(buffer.lines).toHaveLength(2);
});

test("watchers are told once for all that came within a frame", () => {
  let frame: FrameRequestCallback = () => undefined;
  vi.stubGlobal("requestAnimationFrame", (callback: FrameRequestCallback) => {
    frame = callback;
    return 0;
  });
  const buffer = new LogBuffer();
  const watcher = vi.fn();
  buffer.subscribe(watcher);
  for (let line = 0; line < 100; line += 1) buffer.append(0, "x\n");
  expect(watcher).not.toHaveBeenCalled();
  frame(0);
  expect(watcher).toHaveBeenCalledOnce();
  expect(buffer.lines).toHaveLength(100);
});
