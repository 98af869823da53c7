import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { backOffMs, EventStream, SseParser } from "./sse";

const STREAM =
  'id: 1:5\nevent: log\ndata: {"text":"a"}\n\n: still here\n\nid: 1:9\ndata: two\ndata: lines\n\n';
const EVENTS = [
  { id: "1:5", event: "log", data: '{"text":"a"}' },
  { id: "1:9", event: "message", data: "two\nlines" },
];

test("it reads events however their bytes are cut", () => {
  for (let cut = 0; cut <= STREAM.length; cut += 1) {
    const parser = new SseParser();
    expect([...parser.feed(STREAM.slice(0, cut)), ...parser.feed(STREAM.slice(cut))]).toEqual(EVENTS);
  }
});

test("it takes every kind of line end", () => {
  for (const end of ["\r\n", "\r"]) {
    expect(new SseParser().feed(`${STREAM.replaceAll("\n", end)}\n`)).toEqual(EVENTS);
  }
});

test("it keeps an unfinished event back", () => {
  expect(new SseParser().feed("data: half\n")).toEqual([]);
});

test("it remembers the pause that the server asks for", () => {
  const parser = new SseParser();
  parser.feed("retry: 2500\n\n");
  expect(parser.retryMs).toBe(2500);
});

test("the back-off grows, is spread, and has an upper end", () => {
  expect(backOffMs(0, () => 1)).toBe(500);
  expect(backOffMs(3, () => 1)).toBe(4000);
  expect(backOffMs(3, () => 0)).toBe(2400);
  expect(backOffMs(50, () => 1)).toBe(15_000);
});

function answer(text: string, status = 200): Response {
  return new Response(text, { status });
}

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("it goes on after the last event it saw when the line breaks", async () => {
  const fetched = vi
    .fn<typeof fetch>()
    .mockResolvedValueOnce(answer("id: 1:5\ndata: a\n\n"))
    .mockResolvedValueOnce(answer("id: 1:9\ndata: b\n\n"))
    .mockReturnValue(new Promise(() => undefined));
  vi.stubGlobal("fetch", fetched);
  const seen: string[] = [];
  const breaks = vi.fn();
  const stream = new EventStream("/s", { onEvent: (event) => seen.push(event.data), onBreak: breaks });
  await vi.advanceTimersByTimeAsync(20_000);
  stream.close();
  expect(seen).toEqual(["a", "b"]);
  expect(breaks).toHaveBeenCalled();
  expect(fetched.mock.calls[1]?.[1]?.headers).toMatchObject({ "Last-Event-ID": "1:5" });
});

test("it comes back when the server is away for a while", async () => {
  const fetched = vi
    .fn<typeof fetch>()
    .mockRejectedValueOnce(new TypeError("refused"))
    .mockResolvedValueOnce(answer("", 503))
    .mockResolvedValueOnce(answer("data: back\n\n"))
    .mockReturnValue(new Promise(() => undefined));
  vi.stubGlobal("fetch", fetched);
  const seen: string[] = [];
  const stream = new EventStream("/s", { onEvent: (event) => seen.push(event.data) });
  await vi.advanceTimersByTimeAsync(20_000);
  stream.close();
  expect(seen).toEqual(["back"]);
});

test("it takes a refusal for an answer and does not ask again", async () => {
  const fetched = vi.fn<typeof fetch>().mockResolvedValue(answer("", 404));
  vi.stubGlobal("fetch", fetched);
  const refused = vi.fn();
  new EventStream("/s", { onEvent: () => undefined, onRefused: refused });
  await vi.advanceTimersByTimeAsync(60_000);
  expect(refused).toHaveBeenCalledExactlyOnceWith(404);
  expect(fetched).toHaveBeenCalledOnce();
});

test("nothing is said after it was closed", async () => {
  const fetched = vi.fn<typeof fetch>().mockResolvedValue(answer("data: late\n\n"));
  vi.stubGlobal("fetch", fetched);
  const seen = vi.fn();
  new EventStream("/s", { onEvent: seen, onBreak: seen, onRefused: seen }).close();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(seen).not.toHaveBeenCalled();
});
