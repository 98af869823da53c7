import { render, screen } from "@testing-library/react";
import { expect, it } from "vitest";

import { makeNodeDetail } from "../../testing/makers";
import { Maintenance } from "./Maintenance";

const PLANNED = {
  id: 3,
  pool: "main",
  node: null,
  begins_at: "2030-01-02T08:00:00Z",
  ends_at: "2030-01-02T10:00:00Z",
  running_jobs: "move" as const,
  reason: "new driver",
  begun_at: null,
  created_by: "olga",
};

it("tells when and why a node is to be free of jobs", () => {
  render(<Maintenance node={makeNodeDetail({ maintenance: [PLANNED] })} />);
  expect(screen.getByRole("heading", { name: "Maintenance" })).toBeTruthy();
  expect(screen.getByText("new driver")).toBeTruthy();
  expect(screen.getByText("planned")).toBeTruthy();
  expect(screen.getByText(/every node of main/)).toBeTruthy();
  expect(screen.getByText(/are stopped and queued again/)).toBeTruthy();
});

it("says so once it has begun", () => {
  render(
    <Maintenance node={makeNodeDetail({ maintenance: [{ ...PLANNED, begun_at: PLANNED.begins_at }] })} />,
  );
  expect(screen.getByText("under way")).toBeTruthy();
});

it("shows nothing of a node of which nothing is planned", () => {
  const { container } = render(<Maintenance node={makeNodeDetail()} />);
  expect(container.firstChild).toBeNull();
});
