import { render, screen } from "@testing-library/react";
import { expect, it } from "vitest";

import { fullTime } from "../format/time";
import { AT } from "../testing/makers";
import { Ago, RunTime, Time } from "./Time";

it("shows a moment in the reader's time zone, and in UTC on hover", () => {
  render(<Time at={AT(0)} />);
  const shown = screen.getByText(fullTime(AT(0)));
  expect(shown.title).toBe(`${fullTime(AT(0))} · 2026-01-01 12:00:00 UTC`);
});

it("says on hover when something was that is shown by its age", () => {
  render(<Ago at={AT(0)} />);
  expect(screen.getByText(/ago$|^in /).title).toContain("2026-01-01 12:00:00 UTC");
});

it("sums up the run times of attempts without the pauses between them", () => {
  const since = new Date(Date.now() - 60_000).toISOString();
  render(
    <>
      <RunTime job={{ run_time_s: 0, running_since: null }} />
      <RunTime job={{ run_time_s: 600, running_since: null }} />
      <RunTime job={{ run_time_s: 600, running_since: since }} />
    </>,
  );
  for (const text of ["–", "10m 00s"]) expect(screen.getByText(text)).toBeTruthy();
  expect(screen.getByText(/^(10m 5|11m 0)\ds$/)).toBeTruthy();
});
