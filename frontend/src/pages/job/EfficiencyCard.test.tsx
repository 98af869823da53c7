import { render, screen } from "@testing-library/react";
import { expect, it } from "vitest";

import type { Efficiency } from "../../api/types";
import { EfficiencyCard } from "./EfficiencyCard";

const POOR: Efficiency = {
  attempt: 2,
  grade: "poor",
  silence: null,
  utilization: 38.4,
  idle_gpus: 1,
  gpu_hours: 8,
  idle_gpu_hours: 5,
  gpus: [{ rank: 0, index: 0, utilization: 38.4, memory_used_mib: 10_240, memory_mib: 40_960 }],
  cpus: 8,
  cpu_cores: 1.25,
  memory_mib: 65_536,
  memory_used_mib: 2048,
  advice: ["It used 38 % of 4 GPUs; 2 might have been enough."],
};

it("tells the grade, the advice, and what was measured", () => {
  render(<EfficiencyCard efficiency={POOR} />);
  expect(screen.getByRole("heading", { name: "Used little of its GPUs: 38 % of the time" })).toBeTruthy();
  expect(screen.getByText("It used 38 % of 4 GPUs; 2 might have been enough.")).toBeTruthy();
  const facts = screen.getByText(/GPU memory/).textContent;
  expect(facts).toContain("1 GPU idle · 5.00 of 8.00 GPU-hours idle · GPU memory 10 GiB of 40 GiB at most");
  expect(facts).toContain("memory 2 GiB of 64 GiB at most · 1.3 of 8 processors busy · attempt 2");
});

it("says nothing where nothing is known", () => {
  const silent: Efficiency = { ...POOR, grade: null, silence: "too_short", utilization: null, advice: [] };
  const { container } = render(<EfficiencyCard efficiency={silent} />);
  expect(container.firstChild).toBeNull();
});

it("gives advice also where there is no grade", () => {
  render(
    <EfficiencyCard efficiency={{ ...POOR, grade: null, silence: "no_gpus", utilization: null, gpus: [] }} />,
  );
  expect(screen.getByRole("heading", { name: "Asked for more than it used" })).toBeTruthy();
});
