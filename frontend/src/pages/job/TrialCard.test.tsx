import { render, screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";

import type { JobWithSpec } from "../../api/types";
import { JobStateChip } from "../../components/StateChip";
import { AT, makeJob } from "../../testing/makers";
import { TrialCard } from "./TrialCard";

vi.mock("@tanstack/react-router", () => ({
  Link: ({ children }: { children: unknown }) => <a href="/logs">{children as string}</a>,
}));

type Trial = JobWithSpec["trials"][number];

const TRIAL: Trial = {
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

const show = (trials: Trial[], failure: Partial<JobWithSpec["failure"]> = null) =>
  render(<TrialCard job={{ ...makeJob(), trials, failure } as unknown as JobWithSpec} />);

test("a trial that failed says so, with its line and hint, and leads to its log", () => {
  show([TRIAL]);
  expect(screen.getByRole("heading", { name: "Failed in its trial: Import error" })).toBeDefined();
  expect(screen.getByText("ModuleNotFoundError: No module named <b>nowhere</b>")).toBeDefined();
  expect(screen.getByText("Install it in the image.")).toBeDefined();
  expect(screen.getByRole("link").textContent).toBe("Attempt 1");
  expect(screen.getByText(/on 2 of 32 GPUs, 12 s/)).toBeDefined();
});

test("a job that was not tried says why, and has no log to look at", () => {
  show([
    {
      ...TRIAL,
      verdict: "trusted",
      detail: "the same passed in job 6",
      attempt: null,
      failure: "",
      line: "",
    },
  ]);
  expect(screen.getByRole("heading", { name: "Trusted, and not tried" })).toBeDefined();
  expect(screen.getByText("the same passed in job 6")).toBeDefined();
  expect(screen.queryByRole("link")).toBeNull();
});

test("a job without trials has no card", () => {
  show([]);
  expect(screen.queryByRole("region", { name: "Trial on a few GPUs" })).toBeNull();
});

test("the chip of a job on trial does not say that it runs", () => {
  render(<JobStateChip state="active" stage="screening" />);
  render(<JobStateChip state="queued" stage="screening" />);
  render(<JobStateChip state="succeeded" stage="full" />);
  expect(screen.getByText("In its trial")).toBeDefined();
  expect(screen.getByText("Waits for its trial")).toBeDefined();
  expect(screen.queryByText("Running")).toBeNull();
});

test("a trial whose failure is the job's own does not say it twice", () => {
  show([TRIAL], { class: TRIAL.failure, line: TRIAL.line });
  expect(screen.getByRole("heading", { name: "Failed in its trial: Import error" })).toBeDefined();
  expect(screen.queryByText("ModuleNotFoundError: No module named <b>nowhere</b>")).toBeNull();
  expect(screen.queryByText("Install it in the image.")).toBeNull();
});
