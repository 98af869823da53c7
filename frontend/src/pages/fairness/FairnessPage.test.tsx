import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { fireEvent, render, screen, within } from "@testing-library/react";
import type { ReactNode } from "react";
import { beforeEach, expect, test, vi } from "vitest";

import * as api from "../../api/client";
import * as usageApi from "../../api/usage";
import { meQuery } from "../../api/queries";
import type { Auction, PolicyVerdicts, PoolFairness, RhoFigures } from "../../api/types";
import { AT } from "../../testing/makers";
import { FairnessPage } from "./FairnessPage";

const route = vi.hoisted(() => ({ search: {}, navigate: vi.fn() }));

vi.mock("@tanstack/react-router", () => ({
  getRouteApi: () => ({ useSearch: () => route.search, useNavigate: () => route.navigate }),
  Link: ({ children, to, params }: { children: ReactNode; to: string; params?: Record<string, string> }) => (
    <a href={to.replace(/\$\w+/, Object.values(params ?? {})[0] ?? "")}>{children}</a>
  ),
}));
vi.mock("../../api/client");
vi.mock("../../api/usage");

const UNFAIR = "tenant nlp holds 2 A100 and does the work of 2 GPUs";

function makeVerdicts(changes: Partial<PolicyVerdicts> = {}): PolicyVerdicts {
  return {
    policy: "fifo",
    policy_params: {},
    today: true,
    snapshots: 20,
    decided_by: { fifo: 8, themis: 12 },
    sharing_incentive: 18,
    pareto_efficiency: 20,
    kept_by_quotas: 0,
    envy_freeness: 20,
    problem: "",
    witnesses: [{ at: AT(0), sentence: UNFAIR }],
    ...changes,
  };
}

function figures(median: number, mean: number, max: number): RhoFigures {
  return {
    applications: 3,
    rho_quota_median: median,
    rho_quota_mean: mean,
    rho_quota_max: max,
    rho_cluster_median: 1,
    rho_cluster_mean: 1,
    rho_cluster_max: 1,
  };
}

const FAIRNESS: PoolFairness = {
  pool: "main",
  days: 28,
  verdicts: [makeVerdicts()],
  tenants: [{ tenant: "nlp", ...figures(1.25, 1.5, 2.25) }],
  weeks: [{ week: "2026-11-23", ...figures(1.25, 1.5, 2.25) }],
  now: [{ tenant: "vision", ...figures(1.75, 2, 3) }],
};

const AUCTION: Auction = {
  number: 17,
  at: AT(0),
  offer: { A100: 8 },
  bids: [
    {
      application: "sweep 3",
      name: "lr-search",
      tenant: "nlp",
      rho: null,
      rows: [{ gpu_type: "A100", gpus: 4, packed: true, value: 0.5 }],
    },
    { application: "job 12", name: "train", tenant: "vision", rho: 2.5, rows: [] },
  ],
  outside: 1,
  wins: [
    {
      application: "sweep 3",
      name: "lr-search",
      gpu_type: "A100",
      gpus: 4,
      packed: true,
      part: 0.75,
      lease_s: 900,
      job_ids: [101, 102],
    },
  ],
  drawn: [14],
  left: { A100: 2 },
  refused: [{ application: "job 12", why: "it bids for 9 A100, and 8 are offered" }],
  without_room: [],
};

const DECISIONS = {
  policy: "themis",
  policy_params: {},
  needs: [],
  knows: { jobs: 0, rates: 0, by_source: {}, expected: 0 },
  last_round: null,
  auctions: [AUCTION],
  wakes_at: null,
};

beforeEach(() => {
  route.search = {};
  route.navigate.mockReset();
  const pool = { name: "main", policy: "fifo", placement: "", admission: "", nodes: 1, gpus: [] };
  vi.mocked(api.listPools).mockResolvedValue({ results: [pool], next: null });
  vi.mocked(usageApi.listPolicies).mockResolvedValue(["fifo", "las", "themis"]);
  vi.mocked(usageApi.getPoolFairness).mockResolvedValue(FAIRNESS);
  vi.mocked(usageApi.getPoolDecisions).mockResolvedValue(DECISIONS);
});

function show(operator = true) {
  const client = new QueryClient({ defaultOptions: { queries: { retry: false, staleTime: Infinity } } });
  client.setQueryData(meQuery.queryKey, {
    username: "olga",
    email: "",
    is_operator: operator,
    tenants: [],
    vcs: [],
    default_vc: null,
  });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={client}>
        <FairnessPage />
      </QueryClientProvider>
    </MantineProvider>,
  );
}

test("the policy of today is judged, with what shows that it is unfair", async () => {
  show();
  const card = await screen.findByRole("region", { name: "Verdicts" });
  const row = within(card).getByRole("row", { name: /^Sharing incentive/ });
  expect(within(row).getByText("Broken in 2 of 20")).toBeTruthy();
  expect(within(card).getAllByText("Held in all 20 snapshots")).toHaveLength(2);
  expect(within(card).getByText(/which fifo \(8\) and themis \(12\) decided at the time/)).toBeTruthy();
  expect(within(card).getByText(/^Tenant nlp holds 2 A100/)).toBeTruthy();
});

test("another policy is chosen by the address and stands beside it", async () => {
  show();
  const select = await screen.findByRole("combobox", { name: "Compare with a policy" });
  await within(select).findByRole("option", { name: "las" });
  expect(within(select).queryByRole("option", { name: "fifo" })).toBeNull();
  fireEvent.change(select, { target: { value: "las" } });
  const { search } = route.navigate.mock.lastCall?.[0] as { search: (old: object) => object };
  expect(search({ pool: "main" })).toEqual({ pool: "main", policy: "las" });
});

test("both policies have a column and their witnesses", async () => {
  route.search = { policy: "las" };
  const las = makeVerdicts({ policy: "las", today: false, sharing_incentive: 20, witnesses: [] });
  vi.mocked(usageApi.getPoolFairness).mockResolvedValue({ ...FAIRNESS, verdicts: [makeVerdicts(), las] });
  show();
  expect(await screen.findByRole("columnheader", { name: "fifo, the pool’s policy" })).toBeTruthy();
  expect(screen.getByRole("columnheader", { name: "las" })).toBeTruthy();
  expect(screen.getByText("All three properties held in each snapshot.")).toBeTruthy();
  expect(usageApi.getPoolFairness).toHaveBeenCalledWith("main", "las");
});

test("who pays for whom has a sentence, the tenants and the weeks", async () => {
  show();
  const card = await screen.findByRole("region", { name: "Who pays for whom" });
  expect(within(card).getByText("nlp waited longer than alone, and no tenant gained.")).toBeTruthy();
  expect(within(card).getAllByText("1.25×")).toHaveLength(2);
  expect(within(card).getAllByText("1.50×")).toHaveLength(2);
  expect(within(card).getAllByText("2.25×")).toHaveLength(2);
  const live = within(card).getByRole("row", { name: /vision, live, as it stands/ });
  expect(within(live).getByText("1.75×")).toBeTruthy();
});

test("an auction tells what was offered, bid, won, paid and left over", async () => {
  show();
  const card = await screen.findByRole("region", { name: "Last auctions" });
  expect(within(card).getByText(/8 A100 offered · 2 bids, 1 won/)).toBeTruthy();
  expect(within(card).getByRole("link", { name: "sweep 3" }).getAttribute("href")).toBe("/sweeps/3");
  expect(within(card).getByText("lr-search · nlp")).toBeTruthy();
  expect(within(card).getByText("∞")).toBeTruthy();
  expect(within(card).getByText("4 A100 close together: 0.5")).toBeTruthy();
  expect(within(card).getByText("15m 00s, 75 % of it")).toBeTruthy();
  expect(within(card).getByText("Refused: it bids for 9 A100, and 8 are offered")).toBeTruthy();
  expect(card.textContent).toContain(
    "1 application could not bid, as it is served better. Left-overs went by lot to job 14. Left over: 2 A100.",
  );
});

test("a pool whose policy holds no auctions says so", async () => {
  vi.mocked(usageApi.getPoolDecisions).mockResolvedValue({ ...DECISIONS, policy: "fifo", auctions: [] });
  show();
  expect(
    await screen.findByText("The policy of this pool is fifo; only themis holds auctions."),
  ).toBeTruthy();
});

test("a pool of themis without an auction says when there is one", async () => {
  const wakes_at = new Date(Date.now() + 725_000).toISOString();
  vi.mocked(usageApi.getPoolDecisions).mockResolvedValue({ ...DECISIONS, auctions: [], wakes_at });
  show();
  const card = await screen.findByRole("region", { name: "Last auctions" });
  expect(card.textContent).toContain(
    "keep their GPUs for one lease from their start. Themis decides again in 12m.",
  );
});

test("others than operators are told where to look", () => {
  show(false);
  expect(screen.getByText("Only operators see how pools are shared")).toBeTruthy();
});
