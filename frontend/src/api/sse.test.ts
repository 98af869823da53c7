import { ReadableStream } from "node:stream/web";

import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { backOffMs, EventStream } from "./sse";

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

test("it reads events whose bytes are cut anywhere", async () => {
  const bytes = new TextEncoder().encode(
    'id: 1:5\r\nevent: log\r\ndata: {"text":"Zürich"}\r\n\r\n: still here\r\n\r\n',
  );
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => bytes.forEach((_, at) => controller.enqueue(bytes.subarray(at, at + 1))),
  });
  vi.stubGlobal("fetch", vi.fn<typeof fetch>().mockResolvedValue(new Response(body as unknown as BodyInit)));
  const seen = vi.fn();
  const stream = new EventStream("/s", { onEvent: seen });
  await vi.advanceTimersByTimeAsync(0);
  stream.close();
  expect(seen).toHaveBeenCalledExactlyOnceWith({ id: "1:5", event: "log", data: '{"text":"Zürich"}' });
});

test("it pauses for as long as the server asks for", async () => {
  const fetched = vi
    .fn<typeof fetch>()
    .mockResolvedValueOnce(answer("retry: 2500\n\n"))
    .mockReturnValue(new Promise(() => undefined));
  vi.stubGlobal("fetch", fetched);
  const stream = new EventStream("/s", { onEvent: () => undefined });
  await vi.advanceTimersByTimeAsync(2_499);
  expect(fetched).toHaveBeenCalledTimes(1);
  await vi.advanceTimersByTimeAsync(1);
  expect(fetched).toHaveBeenCalledTimes(2);
  stream.close();
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
