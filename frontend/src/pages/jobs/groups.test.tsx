import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import type { ReactNode } from "react";
import { afterEach, beforeEach, expect, it, vi } from "vitest";

import * as api from "../../api/client";
import type { ConfirmProps } from "../../components/Confirm";
import { makeGroupRow, makeJob } from "../../testing/makers";
import { JobsPage } from "./JobsPage";

const route = vi.hoisted(() => ({ search: {} }));

vi.mock("@tanstack/react-router", () => ({
  getRouteApi: () => ({ useSearch: () => route.search, useNavigate: () => vi.fn() }),
  useNavigate: () => vi.fn(),
  Link: ({ children }: { children: ReactNode }) => <a href="#there">{children}</a>,
}));
vi.mock("../../components/Confirm", () => ({
  Confirm: ({ opened, yes, onYes, onClose }: ConfirmProps) =>
    opened ? <button onClick={() => void onYes().then(onClose)}>{yes}</button> : null,
}));

const GROUP = makeGroupRow({ waiting: 24, running: 1, succeeded: 2 }, {}, { id: 1 });

function member(number: number) {
  const group = GROUP.group && { ...GROUP.group, member: number, progress: null };
  return makeJob({ id: number, name: "lr-search", group, params: { lr: number } });
}

beforeEach(() => {
  route.search = {};
  vi.stubGlobal("scrollTo", vi.fn());
  vi.spyOn(api, "listVcs").mockResolvedValue({ results: [], next: null });
  vi.spyOn(api, "countJobs").mockResolvedValue({ jobs: 26, gpus: 26, states: [], cancellable: 26 });
  vi.spyOn(api, "cancelJobs").mockResolvedValue({ cancelled: [1, 2], refused: [], remaining: 0 });
  vi.spyOn(api, "listJobs").mockImplementation((filter, _, cursor) => {
    if (filter.group === undefined)
      return Promise.resolve({ results: [makeJob({ id: 90 }), GROUP], next: null });
    if (cursor === undefined) return Promise.resolve({ results: [member(1), member(2)], next: "behind 2" });
    return Promise.resolve({ results: [member(3)], next: null });
  });
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

const show = () =>
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient({ defaultOptions: { queries: { retry: false } } })}>
        <JobsPage />
      </QueryClientProvider>
    </MantineProvider>,
  );
const listed = (filter: object, cursor?: string) =>
  expect(api.listJobs).toHaveBeenCalledWith(
    expect.objectContaining(filter),
    expect.any(Number),
    cursor,
    expect.anything(),
  );

it("has one row for a sweep, which tells how far it is", async () => {
  show();
  expect(await screen.findByText("2 of 27 ended, 1 running, 24 waiting")).toBeTruthy();
  expect(screen.getByText("27 × 1", { exact: false })).toBeTruthy();
  expect(screen.getByText("1 job and 1 sweep")).toBeTruthy();
  listed({ members: false });
});

it("opens the row to show the members below it, page by page", async () => {
  show();
  await userEvent.click(await screen.findByRole("button", { name: "Members of sweep 3" }));
  expect(await screen.findByText("member 3: lr 3")).toBeTruthy();
  listed({ group: 3 }, undefined);
  listed({ group: 3 }, "behind 2");
  await userEvent.click(screen.getByRole("button", { name: "Members of sweep 3" }));
  expect(screen.queryByText("member 3: lr 3")).toBeNull();
});

it("cancels those members of a selected sweep that match, and the selected jobs", async () => {
  route.search = { state: "queued" };
  show();
  await userEvent.click(await screen.findByRole("checkbox", { name: "Select group 3" }));
  await userEvent.click(screen.getByRole("checkbox", { name: "Select job 90" }));
  expect(screen.getByText("25 jobs selected")).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "Cancel jobs" }));
  await userEvent.click(screen.getByRole("button", { name: "Cancel 25 jobs" }));
  expect(api.cancelJobs).toHaveBeenCalledWith({ ids: [90] });
  expect(api.cancelJobs).toHaveBeenCalledWith(expect.objectContaining({ group: 3, state: ["queued"] }));
});

it("lists the members themselves where the address asks for those of one sweep", async () => {
  route.search = { group: "3" };
  show();
  expect(await screen.findAllByText("member 1 of 27")).toHaveLength(1);
  expect(api.listJobs).not.toHaveBeenCalledWith(
    expect.objectContaining({ members: false }),
    expect.anything(),
    undefined,
    expect.anything(),
  );
});
