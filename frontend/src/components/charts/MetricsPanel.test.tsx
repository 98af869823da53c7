import { MantineProvider } from "@mantine/core";
import { render, screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { describe, expect, it, vi } from "vitest";

import { MetricsPanel } from "./MetricsPanel";

// There is no canvas here; the tests in a browser look at the drawings.
vi.mock("./Chart", () => ({ default: () => <div data-testid="drawing" /> }));

const chart = (name: string, title: string) => ({
  name,
  title,
  lines: [
    { label: "GPU 0", mean: [10, 20], max: [10, 50] },
    { label: "GPU 1", mean: [30, null], max: [30, null] },
  ],
  ceiling: null,
  format: (value: number) => `${value} W`,
  binary: false,
});

const power = chart("power_w", "Power");
const groups = [{ title: "GPUs", charts: [power], all: [power, chart("ecc_corrected", "Corrected errors")] }];

function show(shown: typeof groups) {
  render(
    <MantineProvider>
      <MetricsPanel groups={shown} times={[100, 110]} stepS={10} empty="Wait a little." />
    </MantineProvider>,
  );
}

describe("the panel of charts", () => {
  it("says in words what a chart shows, and names its lines", async () => {
    show(groups);
    expect((await screen.findByTestId("drawing")).isConnected).toBe(true);
    expect(
      screen.getByText("Power: 22.5 W on average over 2 lines, at least 10 W, at most 50 W.").isConnected,
    ).toBe(true);
    const legend = within(screen.getByRole("region", { name: "GPUs" })).getByRole("list");
    expect(
      within(legend)
        .getAllByRole("listitem")
        .map((item) => item.textContent),
    ).toEqual(["GPU 0", "GPU 1"]);
    expect(screen.getByText("smallest 10 W, largest 50 W").isConnected).toBe(true);
  });

  it("is a table for who asks for one, with what is in no chart", async () => {
    show(groups);
    await userEvent.click(screen.getByRole("button", { name: "Table" }));
    const rows = within(screen.getByRole("table")).getAllByRole("row");
    expect(rows.map((row) => row.textContent)).toEqual([
      "FigureOfNewestMeanSmallestLargest",
      "PowerGPU 020 W15 W10 W50 W",
      "PowerGPU 130 W30 W30 W30 W",
      "Corrected errorsGPU 020 W15 W10 W50 W",
      "Corrected errorsGPU 130 W30 W30 W30 W",
    ]);
    expect(screen.queryByTestId("drawing")).toBeNull();
  });

  it("says so where nothing was measured", () => {
    show([]);
    expect(screen.getByText("Wait a little.").isConnected).toBe(true);
  });
});
