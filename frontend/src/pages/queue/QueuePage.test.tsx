import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import type { ReactNode } from "react";
import { beforeEach, expect, test, vi } from "vitest";

import * as api from "../../api/client";
import * as queueApi from "../../api/queue";
import type { Queue } from "../../api/types";
import { makeQueueEntry, makeVc } from "../../testing/makers";
import { QueuePage } from "./QueuePage";

vi.mock("@tanstack/react-router", () => ({
  getRouteApi: () => ({ useSearch: () => ({}), useParams: () => ({ name: "vision-vc" }) }),
  Link: ({ children }: { children: ReactNode }) => <a href="#top">{children}</a>,
}));
vi.mock("../../api/client");
vi.mock("../../api/queue");

const quota = { reason: "quota" as const, detail: "vision-vc uses 4 of its 4 A100", helps: ["a job ends"] };
const mine = (id: number, changes = {}) =>
  makeQueueEntry({
    id,
    name: `job-${id}`,
    owner: "ada",
    position: id,
    movable: true,
    hold: quota,
    ...changes,
  });

function queueOf(changes: Partial<Queue> = {}): Queue {
  const other = makeQueueEntry({ id: 2, name: "job-2", owner: "bob", position: 2 });
  return {
    vc: "vision-vc",
    pool: "main",
    policy: "fifo",
    planner: "",
    ordered_at: null,
    waiting: 3,
    held: 0,
    manages: false,
    results: [mine(1), other, mine(3)],
    next: null,
    ...changes,
  };
}

function show(queue: Queue) {
  vi.mocked(queueApi.getQueue).mockResolvedValue(queue);
  const client = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  client.setQueryData(["me"], {
    username: "ada",
    is_operator: false,
    tenants: [],
    vcs: [],
    default_vc: null,
  });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={client}>
        <QueuePage />
      </QueryClientProvider>
    </MantineProvider>,
  );
}

const rows = () =>
  within(screen.getByRole("table", { name: "Waiting jobs" }))
    .getAllByRole("row")
    .slice(1)
    .map((row) => row.textContent);

beforeEach(() => {
  vi.clearAllMocks();
  const vc = makeVc({ waiting: 3 });
  vi.mocked(api.listVcs).mockResolvedValue({ results: [vc], next: null });
});

test("each waiting job has its place, its reason and what would help", async () => {
  show(queueOf());
  expect(await screen.findByText("3 jobs in the order of fifo (pool main)")).toBeTruthy();
  expect(queueApi.getQueue).toHaveBeenCalledWith(5, false, undefined);
  expect(rows()[0]).toContain("uses 4 of its 4 A100");
  expect(rows()[0]).toContain("It helps if a job ends");
  expect(rows()[1]).toContain("The next cycle decides about it");
});

test("a waiting job has the forecast of its start", async () => {
  const says = "likely within 10 minutes (83 %)";
  const wait = { quick: 0.83, p10_s: 20, p50_s: 200, p90_s: 900, source: "combined" as const, says };
  show(queueOf({ results: [mine(1, { wait })] }));
  expect(await screen.findByText(`Its start: ${says}`)).toBeTruthy();
});

test("an own job is moved by its buttons, and keeps the focus", async () => {
  show(queueOf());
  vi.mocked(queueApi.reorderQueue).mockReturnValue(new Promise(() => undefined));
  const up = await screen.findByRole("button", { name: "Move job-3 up" });
  up.focus();
  await userEvent.keyboard("{Enter}");
  expect(queueApi.reorderQueue).toHaveBeenCalledWith(5, [3, 1]);
  await waitFor(() => expect(rows().map((text) => text.slice(0, 6))).toEqual(["1job-3", "2job-2", "3job-1"]));
  expect(screen.getByText("job-3 is 1st now")).toBeTruthy();
  expect(document.activeElement?.getAttribute("aria-label")).toBe("Move job-3 up");
  await userEvent.keyboard("{Enter}");
  expect(queueApi.reorderQueue).toHaveBeenCalledTimes(1);
});

test("an owner holds the own jobs only, and only a manager bumps", async () => {
  show(queueOf());
  await userEvent.click(await screen.findByRole("button", { name: "Hold job-1" }));
  expect(api.actOnWaiting).toHaveBeenCalledWith(1, "hold");
  expect(screen.queryByRole("button", { name: "Hold job-2" })).toBeNull();
  expect(screen.queryByRole("button", { name: "Bump job-1" })).toBeNull();
});

test("a manager bumps and unbumps any job, and releases a held one", async () => {
  const held = mine(3, { held: true, movable: false, position: null });
  const bumped = makeQueueEntry({ id: 2, name: "job-2", owner: "bob", bumped: true });
  show(queueOf({ manages: true, held: 1, results: [bumped, mine(1), held] }));
  await userEvent.click(await screen.findByRole("button", { name: "Unbump job-2" }));
  await userEvent.click(screen.getByRole("button", { name: "Bump job-1" }));
  await userEvent.click(screen.getByRole("button", { name: "Release job-3" }));
  expect(vi.mocked(api.actOnWaiting).mock.calls).toEqual([
    [2, "unbump"],
    [1, "bump"],
    [3, "release"],
  ]);
  expect(screen.queryByRole("button", { name: "Bump job-3" })).toBeNull();
});
