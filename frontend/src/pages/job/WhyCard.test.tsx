import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen } from "@testing-library/react";
import type { ReactNode } from "react";
import { afterEach, expect, it, vi } from "vitest";

import * as api from "../../api/client";
import * as predictionsApi from "../../api/predictions";
import { makeJob } from "../../testing/makers";
import { WhyCard } from "./WhyCard";

vi.mock("@tanstack/react-router", () => ({
  Link: ({ children, search, params }: { children: ReactNode; search?: object; params?: object }) => (
    <a href={JSON.stringify(search ?? params)}>{children}</a>
  ),
}));
afterEach(() => vi.restoreAllMocks());

it("says how many jobs are ahead and who has the GPUs, with links to their jobs", async () => {
  vi.spyOn(predictionsApi, "getWhen").mockReturnValue(new Promise(() => undefined));
  vi.spyOn(api, "getWhy").mockResolvedValue({
    state: "queued",
    reason: "quota",
    detail: "vision uses 4 of its 4 A100; this job needs 1; 296 jobs are ahead of it in the queue of vision",
    evidence: {},
    helps: ["one A100 of vision becomes free"],
    failure: null,
    position: 297,
    ahead: 296,
    holders: [{ owner: "pete", gpus: 3, jobs_total: 3, jobs: [{ id: 12, name: "large", gpus: 2 }] }],
    estimate: null,
    wait: null,
    wait_unknown: "",
    cycle: 1,
    at: null,
  });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient()}>
        <WhyCard job={makeJob()} />
      </QueryClientProvider>
    </MantineProvider>,
  );
  expect(await screen.findByText(/^vision uses 4 of its 4 A100.*296 jobs are ahead/)).toBeTruthy();
  const links = screen.getAllByRole("link").map((link) => [link.textContent, link.getAttribute("href")]);
  const theirs = JSON.stringify({ owner: "pete", tenant: "acme", vc: "vision", state: "active" });
  expect(links).toEqual([
    ["in vision", JSON.stringify({ name: "vision" })],
    ["pete", theirs],
    ["large", JSON.stringify({ jobId: "12" })],
    ["2 more jobs", theirs],
  ]);
});
