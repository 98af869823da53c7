import { render, screen } from "@testing-library/react";
import { expect, it } from "vitest";

import { AT, makeAttempt } from "../../testing/makers";
import { ResizeCard } from "./ResizeCard";
import { sizeWords } from "./sizes";
import { SizesCard } from "./SizesCard";

const ran = (number: number, gpus: number, from: number, to: number | null) =>
  makeAttempt({
    number,
    placed_at: AT(from),
    ended_at: to === null ? null : AT(to),
    allocations: [
      {
        id: number,
        node: "gpu01",
        rank: 0,
        gpus: Array.from({ length: gpus }, (_, index) => `GPU-${index}`),
        memory_limited: true,
        host_network: null,
        observed: "exited",
        exit_code: 0,
        log_size: 0,
        log_complete: true,
      },
    ],
  });

it("names the size of an attempt, and the one from which it has grown or shrunk", () => {
  expect(sizeWords(ran(1, 1, 0, 60), undefined)).toBe("1 GPU");
  expect(sizeWords(ran(2, 4, 60, 90), ran(1, 1, 0, 60))).toBe("4 GPUs, grown from 1");
  expect(sizeWords(ran(3, 2, 90, 99), ran(2, 4, 60, 90))).toBe("2 GPUs, shrunk from 4");
  expect(sizeWords(ran(4, 2, 99, 100), ran(3, 2, 90, 99))).toBe("2 GPUs");
});

it("shows the sizes of a job over time, each as long as its attempt lasted", () => {
  render(<SizesCard attempts={[ran(1, 1, 0, 60), ran(2, 4, 60, 300), ran(3, 2, 300, 360)]} />);
  const blocks = screen.getAllByRole("listitem");
  expect(blocks.map((block) => block.title)).toEqual([
    "Attempt 1: 1 GPU for 1m 00s",
    "Attempt 2: 4 GPUs for 4m 00s",
    "Attempt 3: 2 GPUs for 1m 00s",
  ]);
  expect(blocks.map((block) => block.style.flexGrow)).toEqual(["60", "240", "60"]);
});

it("shows no sizes over time of a job that kept its size", () => {
  render(<SizesCard attempts={[ran(1, 2, 0, 60), ran(2, 2, 60, 90)]} />);
  expect(screen.queryByLabelText("Sizes over time")).toBeNull();
});

it("says which resize failed and why, and in which size the job goes on", () => {
  render(
    <ResizeCard
      failed={{ before: 2, wanted: 4, at: AT(0), because: "Exit code 1: no such file", until: AT(600) }}
    />,
  );
  expect(screen.getByRole("heading", { name: "Growing from 2 to 4 GPUs failed" })).toBeTruthy();
  expect(screen.getByText(/Exit code 1: no such file\. The job keeps 2 GPUs/)).toBeTruthy();
});
