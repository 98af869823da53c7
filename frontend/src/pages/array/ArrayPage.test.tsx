import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import type { ReactNode } from "react";
import { expect, test, vi } from "vitest";

import * as api from "../../api/client";
import { problemFrom } from "../../api/problem";
import type { Array, ArrayMember } from "../../api/types";
import type { ConfirmProps } from "../../components/Confirm";
import { makeSweep } from "../../testing/makers";
import { ArrayPage } from "./ArrayPage";

interface LinkProps {
  to: string;
  params?: Record<string, string>;
  children: ReactNode;
  "aria-label"?: string;
}

const navigate = vi.hoisted(() => vi.fn());
vi.mock("@tanstack/react-router", () => ({
  useNavigate: () => navigate,
  getRouteApi: () => ({ useParams: () => ({ arrayId: "42" }) }),
  Link: ({ children, to, params, "aria-label": label }: LinkProps) => (
    <a aria-label={label} href={to.replace(/\$\w+/, Object.values(params ?? {})[0] ?? "")}>
      {children}
    </a>
  ),
}));
vi.mock("../../api/client");
vi.mock("../../components/Confirm", () => ({
  Confirm: ({ opened, yes, onYes, onClose }: ConfirmProps) =>
    opened ? <button onClick={() => void onYes().then(onClose)}>{yes}</button> : null,
}));

const { name, tenant, vc, pool, owner, submitted_at } = makeSweep();
const ARRAY: Array = {
  ...{ id: 42, name, tenant, vc, pool, owner, submitted_at, state: "active", reason: "", parallel: 2 },
  ...{ first_index: 0, last_index: 6, gpu_hours: 1.5, started_at: null, ended_at: null, cloned_from: null },
  members: { total: 4, waiting: 1, running: 1, succeeded: 1, failed: 1, cancelled: 0 },
  spec: { command: "true", array: { indices: "0-6:2" } },
};

const member = (
  index: number,
  state: ArrayMember["state"],
  changes: Partial<ArrayMember> = {},
): ArrayMember => ({
  ...{ index, job: 100 + index, state, params: {}, exit_code: null, why: "" },
  ...{ started_at: null, ended_at: null },
  ...changes,
});

function show(array: Array | Error) {
  vi.mocked(api.getArray).mockImplementation(() =>
    array instanceof Error ? Promise.reject(array) : Promise.resolve(array),
  );
  vi.mocked(api.listArrayMembers).mockImplementation((_, state, cursor) => {
    const failed = member(2, "failed", { params: { lr: 0.1 }, why: "exit status 3" });
    if (state === "failed") return Promise.resolve({ results: [failed], next: null });
    if (cursor === "c") return Promise.resolve({ results: [member(6, "waiting")], next: null });
    return Promise.resolve({ results: [member(0, "succeeded"), failed, member(4, "running")], next: "c" });
  });
  const client = new QueryClient({ defaultOptions: { queries: { retry: false, staleTime: Infinity } } });
  return render(
    <MantineProvider env="test">
      <QueryClientProvider client={client}>
        <ArrayPage />
      </QueryClientProvider>
    </MantineProvider>,
  );
}

const cells = async () => within(await screen.findByRole("navigation", { name: "Members by index" }));

test("an array's members are cells with their index, each a link to its job", async () => {
  show(ARRAY);
  const found = (await cells()).getByRole("link", { name: "Index 2: Failed, lr 0.1, exit status 3" });
  expect(found.getAttribute("href")).toBe("/jobs/102");
  await userEvent.click(found);
  expect(navigate).toHaveBeenCalledWith({ to: "/jobs/$jobId", params: { jobId: "102" } });
  expect((await cells()).getAllByRole("link").map((cell) => cell.textContent)).toEqual(["0", "2", "4"]);
  await userEvent.click(screen.getByRole("button", { name: "More members" }));
  expect(await screen.findByRole("link", { name: "Index 6: Waiting" })).toBeTruthy();
});

test("one state alone can be shown, and the failed members run again", async () => {
  show(ARRAY);
  await userEvent.click(await screen.findByRole("button", { name: "Failed 1" }));
  expect((await cells()).getAllByRole("link")).toHaveLength(1);
  vi.mocked(api.retryArray).mockResolvedValue({ ...ARRAY, retried: 1 });
  await userEvent.click(screen.getByRole("button", { name: "Run failed again" }));
  expect(api.retryArray).toHaveBeenCalledWith(42);
});

test("all members are cancelled after a question", async () => {
  show(ARRAY);
  vi.mocked(api.cancelArray).mockResolvedValue(ARRAY);
  await userEvent.click(await screen.findByRole("button", { name: "Cancel all" }));
  expect(api.cancelArray).not.toHaveBeenCalled();
  await userEvent.click(screen.getByRole("button", { name: "Cancel all members" }));
  expect(api.cancelArray).toHaveBeenCalledWith(42);
});

test("an array that has ended says why, and one that is not there says so", async () => {
  const { unmount } = show({ ...ARRAY, state: "failed", reason: "1 of 4 members failed" });
  expect(await screen.findByText("1 of 4 members failed")).toBeTruthy();
  expect(screen.queryByRole("button", { name: "Cancel all" })).toBeNull();
  unmount();
  show(problemFrom(404, "", {}));
  expect(await screen.findByText("There is no array 42")).toBeTruthy();
});
