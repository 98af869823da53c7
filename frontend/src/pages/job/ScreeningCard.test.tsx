import { render, screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";

import type { JobWithSpec } from "../../api/types";
import { JobStateChip } from "../../components/StateChip";
import { AT, makeJob } from "../../testing/makers";
import { ScreeningCard } from "./ScreeningCard";

vi.mock("@tanstack/react-router", () => ({
  Link: ({ children }: { children: unknown }) => <a href="/logs">{children as string}</a>,
}));

type ScreeningRun = JobWithSpec["screening_runs"][number];

const RUN: ScreeningRun = {
  verdict: "failed",
  detail: "",
  attempt: 1,
  failure: "import_error",
  line: "ModuleNotFoundError: No module named <b>nowhere</b>",
  hint: "Install it in the image.",
  gpus_asked: 32,
  gpus: 2,
  waited_s: 3,
  ran_s: 12.4,
  spent_gpu_s: 30,
  saved_gpu_s: 400,
  at: AT(40),
};

const show = (screening_runs: ScreeningRun[], failure: Partial<JobWithSpec["failure"]> = null) =>
  render(<ScreeningCard job={{ ...makeJob(), screening_runs, failure } as unknown as JobWithSpec} />);

test("a failed screening run shows its line and hint, and links to its log", () => {
  show([RUN]);
  expect(screen.getByRole("heading", { name: "Failed in screening: Import error" })).toBeDefined();
  expect(screen.getByText("ModuleNotFoundError: No module named <b>nowhere</b>")).toBeDefined();
  expect(screen.getByText("Install it in the image.")).toBeDefined();
  expect(screen.getByRole("link").textContent).toBe("Attempt 1");
  expect(screen.getByText(/on 2 of 32 GPUs, 12 s/)).toBeDefined();
});

test("a job that was not screened says why, and links to no log", () => {
  show([
    {
      ...RUN,
      verdict: "trusted",
      detail: "the same passed in job 6",
      attempt: null,
      failure: "",
      line: "",
    },
  ]);
  expect(screen.getByRole("heading", { name: "Trusted, not screened" })).toBeDefined();
  expect(screen.getByText("the same passed in job 6")).toBeDefined();
  expect(screen.queryByRole("link")).toBeNull();
});

test("a job without screening runs has no card", () => {
  show([]);
  expect(screen.queryByRole("region", { name: "Screening on a few GPUs" })).toBeNull();
});

test("the chip of a job in screening does not say that it runs", () => {
  render(<JobStateChip state="active" stage="screening" />);
  render(<JobStateChip state="queued" stage="screening" />);
  render(<JobStateChip state="succeeded" stage="full" />);
  expect(screen.getByText("In screening")).toBeDefined();
  expect(screen.getByText("Waits for screening")).toBeDefined();
  expect(screen.queryByText("Running")).toBeNull();
});

test("a screening run whose failure is the job's own does not repeat it", () => {
  show([RUN], { class: RUN.failure, line: RUN.line });
  expect(screen.getByRole("heading", { name: "Failed in screening: Import error" })).toBeDefined();
  expect(screen.queryByText("ModuleNotFoundError: No module named <b>nowhere</b>")).toBeNull();
  expect(screen.queryByText("Install it in the image.")).toBeNull();
});
