import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import type { ReactNode } from "react";
import { afterEach, beforeEach, expect, it, vi } from "vitest";

import * as api from "../../api/client";
import type { ConfirmProps } from "../../components/Confirm";
import { makeJob } from "../../testing/makers";
import { JobsPage } from "./JobsPage";

const route = vi.hoisted(() => ({ search: {} }));
const titles: string[] = [];

vi.mock("@tanstack/react-router", () => ({
  getRouteApi: () => ({ useSearch: () => route.search, useNavigate: () => vi.fn() }),
  useNavigate: () => vi.fn(),
  Link: ({ children, search }: { children: ReactNode; search?: unknown }) => (
    <a href={typeof search === "function" ? JSON.stringify((search as (old: object) => object)({})) : "#"}>
      {children}
    </a>
  ),
}));
vi.mock("../../components/Confirm", () => ({
  Confirm: ({ opened, title, yes, onYes, onClose }: ConfirmProps) => {
    titles.push(title);
    return opened ? <button onClick={() => void onYes().then(onClose)}>{yes}</button> : null;
  },
}));

const COUNT = { jobs: 400, gpus: 400, states: [], cancellable: 297 };

beforeEach(() => {
  titles.length = 0;
  route.search = { tag: "sweep:lr" };
  vi.stubGlobal("scrollTo", vi.fn());
  const results = [1, 2].map((id) => makeJob({ id, name: `sweep-${id}`, tags: { sweep: "lr" } }));
  vi.spyOn(api, "listVcs").mockResolvedValue({ results: [], next: null });
  vi.spyOn(api, "listJobs").mockResolvedValue({ results, next: null });
  vi.spyOn(api, "countJobs").mockResolvedValue(COUNT);
  vi.spyOn(api, "cancelJobs").mockResolvedValue({ cancelled: [1, 2], refused: [], remaining: 0 });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient({ defaultOptions: { queries: { retry: false } } })}>
        <JobsPage />
      </QueryClientProvider>
    </MantineProvider>,
  );
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

const click = async (name: string) => userEvent.click(await screen.findByRole("button", { name }));
const selectAll = async () =>
  userEvent.click(await screen.findByRole("checkbox", { name: "Select all jobs that can be cancelled" }));

it("cancels all jobs that match, also those that the page has not loaded", async () => {
  await selectAll();
  expect(screen.getByText("2 jobs selected")).toBeTruthy();
  await click("Select all 297 that match");
  expect(screen.getByText("All 297 jobs that match")).toBeTruthy();
  await click("Cancel jobs");
  await click("Cancel 297 jobs");
  expect(api.cancelJobs).toHaveBeenCalledWith(
    expect.objectContaining({ state: ["queued", "active"], tag: ["sweep:lr"], mine: false }),
  );
});

it("cancels selected jobs by their numbers, and never asks about none", async () => {
  await selectAll();
  await click("Cancel jobs");
  await click("Cancel 2 jobs");
  await waitFor(() => expect(screen.queryByRole("region", { name: "Selected jobs" })).toBeNull());
  expect(api.cancelJobs).toHaveBeenCalledWith({ ids: [1, 2] });
  expect(titles).not.toContain("Cancel 0 jobs?");
});

it("links a tag of a job to the jobs with that tag, and a filter by tag can be removed", async () => {
  const [tag] = await screen.findAllByText("sweep: lr", { selector: "a" });
  expect(tag?.getAttribute("href")).toBe(JSON.stringify({ tag: "sweep:lr" }));
  expect(api.listJobs).toHaveBeenCalledWith(
    expect.objectContaining({ tag: ["sweep:lr"] }),
    expect.any(Number),
    undefined,
    expect.anything(),
  );
});
