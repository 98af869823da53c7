import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { MantineProvider } from "@mantine/core";
import { render, screen } from "@testing-library/react";
import type { ReactNode } from "react";
import { afterEach, expect, it, vi } from "vitest";

import * as api from "../../api/client";
import type { JobFilter } from "../../api/client";
import { StateTiles } from "./StateTiles";

vi.mock("@tanstack/react-router", () => ({
  Link: ({ children }: { children: ReactNode }) => <a href="#">{children}</a>,
}));
afterEach(() => vi.restoreAllMocks());

it("shows how many jobs there are, beyond what a page of the list holds", async () => {
  vi.spyOn(api, "countJobs").mockImplementation((filter: JobFilter) =>
    Promise.resolve({
      jobs: 0,
      gpus: 0,
      cancellable: 0,
      states:
        filter.ended_after === undefined
          ? [{ state: "queued", jobs: 1297, gpus: 391 }]
          : [{ state: "failed", jobs: 250, gpus: 250 }],
    }),
  );
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient()}>
        <StateTiles mine />
      </QueryClientProvider>
    </MantineProvider>,
  );
  expect((await screen.findByText("1,297")).closest("a")?.textContent).toBe("Queued1,297for 391 GPUs");
  expect((await screen.findByText("250")).closest("a")?.textContent).toBe("Failed250in 24 hours");
  expect(screen.getByText("Running").closest("a")?.textContent).toBe("Running0on 0 GPUs");
});
