import { QueryClient } from "@tanstack/react-query";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { changeFrom, followChanges, Throttle } from "./live";

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("it reads what a message is about", () => {
  expect(changeFrom('{"topic":"jobs","kind":"job.active","job":12}')).toEqual({
    topic: "jobs",
    kind: "job.active",
    job: 12,
  });
  expect(changeFrom('{"topic":"job:9","kind":"x"}')).toMatchObject({ job: 9 });
  expect(changeFrom('{"topic":"nodes","job":null}')).toMatchObject({ topic: "nodes", job: null });
});

test("it leaves alone what it cannot read", () => {
  expect(changeFrom("not json")).toBeNull();
  expect(changeFrom('"text"')).toBeNull();
  expect(changeFrom("{}")).toBeNull();
});

test("a throttle acts at once, then rarely, and never loses the last ask", () => {
  const task = vi.fn();
  const throttle = new Throttle(task, 1000);
  for (let ask = 0; ask < 50; ask += 1) throttle.ask();
  expect(task).toHaveBeenCalledTimes(1);
  vi.advanceTimersByTime(1000);
  expect(task).toHaveBeenCalledTimes(2);
  vi.advanceTimersByTime(10_000);
  expect(task).toHaveBeenCalledTimes(2);
});

test("a change of a job makes that job and the lists stale, and no other job", async () => {
  const message = 'data: {"topic":"jobs","kind":"job.active","job":7}\n\n';
  const fetched = vi
    .fn<typeof fetch>()
    .mockResolvedValueOnce(new Response(message))
    .mockReturnValue(new Promise(() => undefined));
  vi.stubGlobal("fetch", fetched);
  const client = new QueryClient();
  for (const key of [
    ["job", 7, "self"],
    ["job", 8, "self"],
    ["jobs", "list", {}],
  ])
    client.setQueryData(key, {});
  const stop = followChanges(client, () => undefined);
  await vi.advanceTimersByTimeAsync(100);
  stop();
  const stale = (key: unknown[]) => client.getQueryState(key)?.isInvalidated;
  expect(stale(["job", 7, "self"])).toBe(true);
  expect(stale(["jobs", "list", {}])).toBe(true);
  expect(stale(["job", 8, "self"])).toBe(false);
});

test("members of an array on many pages are read again more rarely than those on one", async () => {
  const message = 'data: {"topic":"jobs","kind":"job.active","job":7}\n\n';
  vi.stubGlobal(
    "fetch",
    vi
      .fn<typeof fetch>()
      .mockResolvedValueOnce(new Response(message))
      .mockReturnValue(new Promise(() => undefined)),
  );
  const client = new QueryClient();
  client.setQueryData(["arrays", 1, "members"], { pages: [{}] });
  client.setQueryData(["arrays", 2, "members"], { pages: [{}, {}, {}] });
  const old = { updatedAt: Date.now() - 6000 };
  client.setQueryData(["arrays", 3, "members"], { pages: [{}, {}, {}] }, old);
  const stop = followChanges(client, () => undefined);
  await vi.advanceTimersByTimeAsync(100);
  stop();
  const stale = [1, 2, 3].map((id) => client.getQueryState(["arrays", id, "members"])?.isInvalidated);
  expect(stale).toEqual([true, false, true]);
});

test("what was read before the server listened is read again", async () => {
  const message = 'data: {"topic":"stream","kind":"open","job":null}\n\n';
  const fetched = vi
    .fn<typeof fetch>()
    .mockResolvedValueOnce(new Response(message))
    .mockReturnValue(new Promise(() => undefined));
  vi.stubGlobal("fetch", fetched);
  const client = new QueryClient();
  for (const key of [["job", 7, "self"], ["nodes"], ["me"]]) client.setQueryData(key, {});
  const stop = followChanges(client, () => undefined);
  await vi.advanceTimersByTimeAsync(100);
  stop();
  expect(client.getQueryState(["job", 7, "self"])?.isInvalidated).toBe(true);
  expect(client.getQueryState(["nodes"])?.isInvalidated).toBe(true);
  expect(client.getQueryState(["me"])?.isInvalidated).toBe(false);
});

test("a session that ended is told once", async () => {
  vi.stubGlobal("fetch", vi.fn<typeof fetch>().mockResolvedValue(new Response("", { status: 401 })));
  const signedOut = vi.fn();
  const stop = followChanges(new QueryClient(), signedOut);
  await vi.advanceTimersByTimeAsync(30_000);
  stop();
  expect(signedOut).toHaveBeenCalledOnce();
});
