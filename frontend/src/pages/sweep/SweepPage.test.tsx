import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { fireEvent, render, screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import type { ReactNode } from "react";
import { beforeEach, expect, test, vi } from "vitest";

import * as api from "../../api/client";
import { problemFrom } from "../../api/problem";
import type { Sweep, SweepMember } from "../../api/types";
import type { ConfirmProps } from "../../components/Confirm";
import { makeMember, makeSweep } from "../../testing/makers";
import { SweepPage } from "./SweepPage";

vi.mock("@tanstack/react-router", () => ({
  getRouteApi: () => ({ useParams: () => ({ sweepId: "3" }) }),
  Link: ({ children, to, params, search, "aria-label": label, className }: LinkProps) => (
    <a
      aria-label={label}
      className={className}
      href={`${to.replace(/\$\w+/, Object.values(params ?? {})[0] ?? "")}${search ? `?sweep=${search.sweep}` : ""}`}
    >
      {children}
    </a>
  ),
}));
vi.mock("../../api/client");
vi.mock("../../components/Confirm", () => ({
  Confirm: ({ opened, yes, onYes, onClose }: ConfirmProps) =>
    opened ? <button onClick={() => void onYes().then(onClose)}>{yes}</button> : null,
}));

interface LinkProps {
  to: string;
  params?: Record<string, string>;
  search?: { sweep: string };
  children: ReactNode;
  className?: string;
  "aria-label"?: string;
}

const MEMBERS = [
  makeMember({
    member: 1,
    value: 0.9,
    step: 3,
    state: "stopped",
    why: "loss 0.9 at step 3 is not among the best",
  }),
  makeMember({ member: 2, params: { lr: 0.01, batch: 64 }, value: 0.21, step: 27, state: "succeeded" }),
  makeMember({ member: 3 }),
  makeMember({ member: 4, state: "waiting" }),
];

beforeEach(() => {
  vi.stubGlobal("scrollTo", vi.fn());
  vi.mocked(api.cancelSweep).mockReset();
});

function show(sweep: Sweep | Error, members: SweepMember[] = MEMBERS) {
  vi.mocked(api.getSweep).mockImplementation(() =>
    sweep instanceof Error ? Promise.reject(sweep) : Promise.resolve(sweep),
  );
  vi.mocked(api.listSweepMembers).mockResolvedValue({ results: members });
  const client = new QueryClient({ defaultOptions: { queries: { retry: false, staleTime: Infinity } } });
  return render(
    <MantineProvider env="test">
      <QueryClientProvider client={client}>
        <SweepPage />
      </QueryClientProvider>
    </MantineProvider>,
  );
}

const rows = () =>
  within(screen.getByRole("table", { name: "Members" }))
    .getAllByRole("row")
    .slice(1)
    .map((row) => within(row).getByRole("link").getAttribute("href"));

test("the page tells the best value, the members by state and what was saved", async () => {
  show(makeSweep());
  expect(await screen.findByRole("heading", { name: "lr-search" })).toBeTruthy();
  const summary = screen.getByRole("region", { name: "Summary" });
  expect(within(summary).getByText("0.21")).toBeTruthy();
  expect(within(summary).getByRole("link", { name: "Member 2" }).getAttribute("href")).toBe("/jobs/102");
  expect(within(summary).getByText("1 stopped early")).toBeTruthy();
  expect(within(summary).getByText("Stopping 1 member early saved 41.0 GPU-hours.")).toBeTruthy();
  expect(await screen.findByText("2 reached, 1 went on")).toBeTruthy();
  expect(
    screen.getByText("The best loss was 0.9 after 1m 00s and is 0.21 since 4m 00s after the submission."),
  ).toBeTruthy();
  expect(
    screen.getByText("4 members over 2 parameters: the best loss is 0.21, of member 2: lr 0.01, batch 64."),
  ).toBeTruthy();
});

test("the table begins with the best, sorts by a column, and a row lights up the line of its member", async () => {
  const { container } = show(makeSweep());
  await screen.findByRole("table", { name: "Members" });
  expect(rows()).toEqual(["/jobs/102", "/jobs/101", "/jobs/103", "/jobs/104"]);
  await userEvent.click(screen.getByRole("button", { name: "Member" }));
  expect(rows()).toEqual(["/jobs/101", "/jobs/102", "/jobs/103", "/jobs/104"]);
  fireEvent.focus(screen.getByRole("link", { name: "Member 2, job 102" }));
  expect(screen.getByText("Member 2: loss 0.21 at step 27; lr 0.01, batch 64; succeeded")).toBeTruthy();
  expect(container.querySelectorAll("circle[r='4']")).toHaveLength(3);
});

test("a thousand members are a handful of paths and a screen of rows", async () => {
  const members = Array.from({ length: 1000 }, (_, index) =>
    makeMember({ member: index + 1, value: index, step: 1, params: { lr: 1e-4 + index * 9e-5, batch: 64 } }),
  );
  const { container } = show(makeSweep(), members);
  await screen.findByRole("table", { name: "Members" });
  expect(container.querySelectorAll("svg path").length).toBeLessThan(60);
  expect(rows().length).toBeLessThan(100);
});

test("all members can be cancelled, and a clone begins with the spec", async () => {
  vi.mocked(api.cancelSweep).mockResolvedValue(makeSweep({ state: "cancelled" }));
  show(makeSweep());
  expect((await screen.findByRole("link", { name: "Clone" })).getAttribute("href")).toBe("/submit?sweep=3");
  await userEvent.click(screen.getByRole("button", { name: "Cancel all" }));
  await userEvent.click(screen.getByRole("button", { name: "Cancel all members" }));
  await waitFor(() => expect(api.cancelSweep).toHaveBeenCalledWith(3));
});

test("failed members can be run again, where there are some", async () => {
  vi.mocked(api.retrySweep).mockResolvedValue({ ...makeSweep(), retried: 2 });
  const sweep = makeSweep();
  show({ ...sweep, state: "succeeded", members: { ...sweep.members, failed: 2 } });
  await userEvent.click(await screen.findByRole("button", { name: "Run failed again" }));
  await waitFor(() => expect(api.retrySweep).toHaveBeenCalledWith(3));
});

test("a sweep without values says so, and one that ended says why", async () => {
  show(
    makeSweep({
      best: null,
      best_so_far: [],
      rungs: [],
      state: "failed",
      reason: "its first 3 members failed",
    }),
    [makeMember({ state: "failed" })],
  );
  expect(await screen.findByText("its first 3 members failed")).toBeTruthy();
  expect(screen.getAllByText("No member has reported loss yet.").length).toBeGreaterThan(0);
  expect(screen.queryByText("Early stops by rung")).toBeNull();
  expect(screen.queryByRole("button", { name: "Cancel all" })).toBeNull();
});

test("a sweep that does not exist is told", async () => {
  show(problemFrom(404, "", null));
  expect(await screen.findByText("There is no sweep 3")).toBeTruthy();
});
