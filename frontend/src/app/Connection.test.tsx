import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider, useQuery } from "@tanstack/react-query";
import { act, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { reachable } from "../api/connectivity";
import { AwayBanner } from "./Connection";

const read = vi.fn();

function Reader() {
  useQuery({ queryKey: ["something"], queryFn: read });
  return null;
}

beforeEach(() => {
  vi.useFakeTimers();
  read.mockReset();
  read.mockResolvedValue(1);
  reachable.set(true);
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient()}>
        <AwayBanner />
        <Reader />
      </QueryClientProvider>
    </MantineProvider>,
  );
});

afterEach(() => {
  vi.useRealTimers();
});

const now = (value: boolean) => act(() => reachable.set(value));
const later = (ms: number) => act(() => vi.advanceTimersByTimeAsync(ms));
const retry = () => screen.queryByRole("button", { name: "Retry" });

test("nothing is said while the server answers", () => {
  expect(retry()).toBeNull();
});

test("the button does not vanish when a query that tried again by itself was answered first", async () => {
  now(false);
  const button = retry();
  expect(screen.getByRole("alert").textContent).toContain("does not answer");
  now(true);
  expect(screen.queryByRole("alert")).toBeNull();
  expect(screen.getByRole("status").textContent).toContain("answers again");
  await later(4000);
  expect(retry()).toBe(button);
  await later(2000);
  expect(retry()).toBeNull();
});

test("a server that comes and goes is told by one banner that stays", async () => {
  now(false);
  const button = retry();
  for (const answers of [true, false, true, false]) {
    now(answers);
    await later(3000);
    expect(retry()).toBe(button);
  }
  await later(60_000);
  expect(screen.getByRole("alert").textContent).toContain("does not answer");
});

test("a retry asks again, and puts the banner away once it is answered", async () => {
  await later(0);
  now(false);
  fireEvent.click(screen.getByRole("button", { name: "Retry" }));
  await later(0);
  expect(read).toHaveBeenCalledTimes(2);
  expect(retry()).not.toBeNull();
  now(true);
  fireEvent.click(screen.getByRole("button", { name: "Retry" }));
  await later(0);
  expect(retry()).toBeNull();
});
