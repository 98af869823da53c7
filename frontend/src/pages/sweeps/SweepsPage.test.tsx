import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen } from "@testing-library/react";
import type { ReactNode } from "react";
import { expect, test, vi } from "vitest";

import * as api from "../../api/client";
import { makeSweep } from "../../testing/makers";
import { SweepsPage } from "./SweepsPage";

const route = vi.hoisted(() => ({ search: {} }));

vi.mock("@tanstack/react-router", () => ({
  getRouteApi: () => ({ useSearch: () => route.search }),
  Link: ({ children, params }: { children: ReactNode; params?: { sweepId: string } }) => (
    <a href={params === undefined ? "#" : `/sweeps/${params.sweepId}`}>{children}</a>
  ),
}));
vi.mock("../../api/client");

function show(search: Record<string, string>) {
  route.search = search;
  const client = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={client}>
        <SweepsPage />
      </QueryClientProvider>
    </MantineProvider>,
  );
}

test("each sweep has a row with its best value, its members and what it saved", async () => {
  vi.mocked(api.listSweeps).mockResolvedValue({
    results: [makeSweep(), makeSweep({ id: 4, name: "empty", best: null, saved_gpu_hours: 0 })],
    next: null,
  });
  show({ state: "active", mine: "1" });
  expect((await screen.findByRole("link", { name: "lr-search" })).getAttribute("href")).toBe("/sweeps/3");
  expect(screen.getByText("lr 0.01, batch 64")).toBeTruthy();
  expect(screen.getAllByText("2 / 4")).toHaveLength(2);
  expect(screen.getByText("41.0 saved")).toBeTruthy();
  expect(api.listSweeps).toHaveBeenCalledWith({ state: "active", mine: true }, undefined);
});

test("an empty list says what a sweep is", async () => {
  vi.mocked(api.listSweeps).mockResolvedValue({ results: [], next: null });
  show({});
  expect(await screen.findByText("No sweeps yet")).toBeTruthy();
});
