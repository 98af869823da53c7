import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { loadPart } from "./parts";

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

const lost = new TypeError("Failed to fetch dynamically imported module");

test("a part that comes at once is asked for once", async () => {
  const load = vi.fn().mockResolvedValue("part");
  await expect(loadPart(load)).resolves.toBe("part");
  expect(load).toHaveBeenCalledTimes(1);
});

test("a part that is lost on the way is asked for again, after a wait", async () => {
  const load = vi.fn().mockRejectedValueOnce(lost).mockRejectedValueOnce(lost).mockResolvedValue("part");
  const loaded = loadPart(load);
  await vi.advanceTimersByTimeAsync(399);
  expect(load).toHaveBeenCalledTimes(1);
  await vi.advanceTimersByTimeAsync(1);
  expect(load).toHaveBeenCalledTimes(2);
  await vi.advanceTimersByTimeAsync(1600);
  await expect(loaded).resolves.toBe("part");
  expect(load).toHaveBeenCalledTimes(3);
});

test("a part that never comes fails as its last try did", async () => {
  const load = vi.fn().mockRejectedValue(lost);
  const outcome = loadPart(load).catch((error: unknown) => error);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(await outcome).toBe(lost);
  expect(load).toHaveBeenCalledTimes(3);
});
