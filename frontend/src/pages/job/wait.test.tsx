import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen } from "@testing-library/react";
import type { ReactNode } from "react";
import { beforeEach, expect, it, vi } from "vitest";

import * as api from "../../api/predictions";
import type { JobWhen, WaitForecast } from "../../api/types";
import { AT, makeJob } from "../../testing/makers";
import { StartForecast } from "./StartForecast";
import { WaitFact } from "./WaitFact";
import { outcomeWords } from "./wait";

vi.mock("../../api/predictions");

const LONG: WaitForecast = {
  quick: 0.1,
  p10_s: 1800,
  p50_s: 7200,
  p90_s: 21_600,
  source: "combined",
  says: "in about 2 h, 90 % within 6 h",
};
const QUICK: WaitForecast = { ...LONG, quick: 0.83, says: "likely within 10 minutes (83 %)" };

const WAITING: JobWhen = {
  wait: QUICK,
  wait_unknown: "",
  submitted: LONG,
  eligible_at: AT(0),
  starts_p50_at: AT(300),
  starts_p90_at: AT(900),
  started_at: null,
  waited_s: 60,
};

function show(children: ReactNode, when: JobWhen) {
  vi.mocked(api.getWhen).mockResolvedValue(when);
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient()}>{children}</QueryClientProvider>
    </MantineProvider>,
  );
}

const forecast = async () =>
  (await screen.findByRole("group", { name: "Forecast of its start" })).textContent;

beforeEach(() => vi.clearAllMocks());

it("says when a waiting job starts, from what, and what was forecast at its submission", async () => {
  show(<StartForecast job={makeJob()} />, WAITING);
  expect(await forecast()).toMatch(
    /Likely within 10 minutes \(83 %\): .* from earlier waits and the policy run forward/,
  );
  expect(await forecast()).toContain("At its submission: in about 2 h, 90 % within 6 h");
  expect(await forecast()).not.toContain("longer");
  const times = screen.getAllByRole("time").map((time) => time.getAttribute("datetime"));
  expect(times).toEqual([AT(300), AT(900)]);
});

it("says of a job that outlived its p90 that it did", async () => {
  show(<StartForecast job={makeJob()} />, { ...WAITING, waited_s: 22_000 });
  expect(await forecast()).toContain("it has waited longer than that");
});

it("says why there is no forecast", async () => {
  const unknown = { ...WAITING, wait: null, submitted: null, starts_p50_at: null, starts_p90_at: null };
  show(<StartForecast job={makeJob()} />, {
    ...unknown,
    wait_unknown: "no job of this pool has started yet",
  });
  expect(await forecast()).toContain("Not known: no job of this pool has started yet.");
});

it("holds the wait of a started job against the forecast of its submission", async () => {
  const job = makeJob({ state: "active", started_at: AT(6000) });
  show(<WaitFact job={job} />, { ...WAITING, wait: null, started_at: AT(6000), waited_s: 6000 });
  expect(await screen.findByText("1h 40m")).toBeTruthy();
  expect(screen.getByText("in about 2 h, 90 % within 6 h (within its interval)")).toBeTruthy();
});

it("asks nothing of a job that has not started", () => {
  show(<WaitFact job={makeJob()} />, WAITING);
  expect(api.getWhen).not.toHaveBeenCalled();
});

it("calls a wait beyond its interval longer or shorter", () => {
  expect(outcomeWords(21_601, LONG)).toBe("longer than its p90 of 6h 00m");
  expect(outcomeWords(60, LONG)).toBe("shorter than its p10 of 30m 00s");
});
