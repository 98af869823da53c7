import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { fireEvent, render, screen, waitFor, within } from "@testing-library/react";
import type { ReactNode } from "react";
import { beforeEach, expect, test, vi } from "vitest";

import * as api from "../../api/usage";
import { Problem } from "../../api/problem";
import { meQuery } from "../../api/queries";
import type { DelayUsage, LeastEfficientList, Me, Usage, UsageFairness, Waste } from "../../api/types";
import { InsightsPage } from "./InsightsPage";

const search = vi.hoisted(() => ({
  since: undefined as string | undefined,
  tenant: undefined as string | undefined,
  user: undefined as string | undefined,
}));

vi.mock("@tanstack/react-router", () => ({
  getRouteApi: () => ({ useSearch: () => search }),
  Link: ({ params, search: to, children, "aria-current": current }: LinkProps) => (
    <a
      href={
        params
          ? `/jobs/${params.jobId}`
          : `/insights?since=${to?.since ?? ""}&tenant=${to?.tenant ?? ""}&user=${to?.user ?? ""}`
      }
      aria-current={current}
    >
      {children}
    </a>
  ),
}));
vi.mock("../../api/usage");

interface LinkProps {
  params?: { jobId: string };
  search?: { since: string; tenant?: string; user?: string };
  children: ReactNode;
  "aria-current"?: "true" | undefined;
}

const PERIOD = { from: "2026-11-20T10:00:00Z", to: "2026-11-22T10:00:00Z" };
const amount = (gpu_hours: number, attempts = 3) => ({ gpu_hours, jobs: 2, attempts });
const NO_RETRIES: Waste["retries"] = {
  gpu_hours: 0,
  attempts: 0,
  succeeded_gpu_hours: 0,
  wasted_gpu_hours: 0,
};
const SCREENING: NonNullable<Waste["screening"]> = {
  tried: 9,
  passed: 3,
  failed: 4,
  inconclusive: 1,
  interrupted: 1,
  untried: 2,
  trusted: 5,
  spent_gpu_hours: 1.5,
  saved_gpu_hours: 12,
};
const NOTHING: Waste = {
  ...PERIOD,
  total: amount(0, 0),
  wasted_gpu_hours: 0,
  outcomes: [],
  states: [],
  failures: [],
  retries: NO_RETRIES,
  screening: null,
};
const WASTE: Waste = {
  ...NOTHING,
  total: amount(200),
  wasted_gpu_hours: 80,
  outcomes: [
    { outcome: "succeeded", ...amount(120) },
    { outcome: "failed", ...amount(80) },
  ],
  states: [
    { state: "succeeded", ...amount(110) },
    { state: "failed", ...amount(90) },
  ],
  failures: Array.from({ length: 10 }, (_, index) => ({
    failure: index === 0 ? "gpu_out_of_memory" : `class_${index}`,
    category: "user",
    outcome: "failed" as const,
    ...amount(index === 0 ? 50 : 3, 1),
  })),
  retries: { gpu_hours: 50, attempts: 3, succeeded_gpu_hours: 10, wasted_gpu_hours: 40 },
  screening: SCREENING,
};
const NO_USE: Usage = { ...PERIOD, by: ["day", "outcome"], total: amount(0, 0), results: [] };
const ROW: Usage["results"][number] = {
  ...amount(2),
  tenant: null,
  vc: null,
  user: null,
  gpu_type: null,
  class: null,
  day: "2026-11-21",
  week: null,
  state: null,
  outcome: "failed",
  failure: null,
  category: null,
  retry: null,
};
const NO_GRADES: LeastEfficientList = {
  ...PERIOD,
  total: { jobs: 0, gpu_hours: 0, idle_gpu_hours: 0, utilization: null },
  results: [],
};
const GRADES: LeastEfficientList = {
  ...PERIOD,
  total: { jobs: 12, gpu_hours: 100, idle_gpu_hours: 55, utilization: 44.6 },
  results: [
    {
      job: 1042,
      name: "train",
      owner: "ada",
      vc: "vision",
      ended_at: PERIOD.to,
      grade: "poor",
      utilization: 30,
      idle_gpus: 0,
      gpu_hours: 64,
      idle_gpu_hours: 44.8,
      advice: ["It used 30 % of 4 GPUs; 2 might have been enough."],
    },
  ],
};

const FAIRNESS: UsageFairness = {
  ...PERIOD,
  by: ["week", "tenant"],
  results: [
    {
      week: "2026-11-16",
      tenant: "vision",
      vc: null,
      user: null,
      applications: 4,
      rho_quota_median: 1.2,
      rho_quota_mean: 1.3,
      rho_quota_max: 2,
      rho_cluster_median: 1,
      rho_cluster_mean: 1,
      rho_cluster_max: 1,
    },
  ],
};

const NO_WAIT = { not_eligible_s: 0, fair_share_s: 0, capacity_s: 0, apart_s: 0, order_s: 0, other_s: 0 };
const WAITS: DelayUsage = {
  ...PERIOD,
  by: ["size"],
  total: { ...NO_WAIT, starts: 3, waiting: 1, capacity_s: 600, order_s: 60, fragmentation_s: 660 },
  results: [
    {
      ...{ tenant: null, vc: null, user: null, size: ">8", day: null, week: "2026-11-16" },
      ...{ ...NO_WAIT, starts: 3, waiting: 1, capacity_s: 600, order_s: 60, fragmentation_s: 660 },
    },
  ],
};

beforeEach(() => {
  vi.mocked(api.getDelayUsage).mockResolvedValue(WAITS);
  vi.mocked(api.getWaste).mockResolvedValue(WASTE);
  vi.mocked(api.getUsage).mockResolvedValue({ ...NO_USE, results: [ROW] });
  vi.mocked(api.listLeastEfficient).mockResolvedValue(GRADES);
  vi.mocked(api.getUsageFairness).mockResolvedValue(FAIRNESS);
  vi.mocked(api.usageCsvUrl).mockImplementation((by, { since }) => `/csv?by=${by}&since=${since}`);
  Object.assign(search, { since: undefined, tenant: undefined, user: undefined });
});

function open(me: Partial<Me> = {}) {
  const client = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  const ada: Me = { username: "ada", email: "", is_operator: false, tenants: [], vcs: [], default_vc: null };
  client.setQueryData(meQuery.queryKey, { ...ada, ...me });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={client}>
        <InsightsPage />
      </QueryClientProvider>
    </MantineProvider>,
  );
}

const card = (name: string) => within(screen.getByRole("region", { name }));
const tile = (name: string) => screen.getByText(name, { selector: "dt" }).parentElement?.textContent;

test("the tiles say how it stands", async () => {
  open();
  expect(await screen.findByText("40 %")).toBeTruthy();
  expect(tile("GPU-hours")).toBe("GPU-hours2002 jobs");
  expect(tile("Wasted")).toBe("Wasted40 %80.0 GPU-hours came to nothing");
  expect(tile("Share used by failed or cancelled jobs")).toMatch(/45 %/);
  expect(tile("GPU utilisation")).toMatch(/45 %Mean of 12 jobs/);
});

test("the chart is told in words, and has a bar for each day", async () => {
  open();
  const usage = card("GPU-hours");
  expect(
    await usage.findByText(/^2\.00 GPU-hours: wasted 2\.00\. The most in the day of 2026-11-21/),
  ).toBeTruthy();
  expect(usage.getByText("Days in UTC")).toBeTruthy();
});

test("failures are meters of all GPU time, and what there is no room for is summed up", async () => {
  open();
  const failures = card("Failures");
  const meters = await failures.findAllByRole("meter");
  expect(meters).toHaveLength(8);
  expect(meters[0]?.getAttribute("aria-valuenow")).toBe("25");
  expect(failures.getByText(/^6\.00 GPU-hours of 2 other/)).toBeTruthy();
});

test("outcomes, retries and screening are told with their GPU-hours", async () => {
  open();
  const what = card("What it was for");
  const rows = async () => (await what.findAllByRole("term")).map((term) => term.parentElement?.textContent);
  expect(await rows()).toEqual([
    "Succeeded120 · 60 %",
    "Failed80.0 · 40 %",
    "Taken by 3 tries after a failure50.0 · 25 %",
    "Of these, wasted too40.0",
    "Saved by failures found in screening (estimate)12.0",
    "Spent by 9 screening runs1.50",
    "Failed · passed · went on unscreened or trusted4 · 3 · 7",
  ]);
});

test("one try after a failure is one try", async () => {
  vi.mocked(api.getWaste).mockResolvedValue({ ...WASTE, retries: { ...WASTE.retries, attempts: 1 } });
  open();
  expect(await screen.findByText("Taken by 1 try after a failure")).toBeTruthy();
});

test("a job that left much idle is a link to its page, with what would have been enough", async () => {
  open();
  const link = await card("Least efficient jobs").findByRole("link", { name: /#1042/ });
  expect(link.getAttribute("href")).toBe("/jobs/1042");
  expect(link.textContent).toMatch(
    /#1042 · ada · visionIt used 30 % of 4 GPUs.*44\.8 of 64\.0 GPU-hours idle/,
  );
});

test("where nothing was used each card says so", async () => {
  vi.mocked(api.getWaste).mockResolvedValue({
    ...NOTHING,
    screening: { ...SCREENING, tried: 0, untried: 0, trusted: 0 },
  });
  vi.mocked(api.getUsage).mockResolvedValue(NO_USE);
  vi.mocked(api.listLeastEfficient).mockResolvedValue(NO_GRADES);
  open();
  for (const words of [
    "Nothing failed",
    "No GPU was used.",
    "No failed job was retried.",
    "No job was screened.",
    "No job to show",
    "No job has a grade yet",
  ])
    expect(await screen.findByText(words)).toBeTruthy();
  expect(await screen.findAllByText("No GPU was used")).toHaveLength(2);
  expect(tile("Wasted")).toMatch(/^Wasted–/);
});

test("users without access to screening see nothing of it", async () => {
  vi.mocked(api.getWaste).mockResolvedValue({ ...WASTE, screening: null });
  open();
  expect(await screen.findByText("Retries")).toBeTruthy();
  expect(screen.queryByText("Screening", { selector: "h3" })).toBeNull();
});

test("each card that could not be loaded says so by itself", async () => {
  vi.mocked(api.getWaste).mockRejectedValue(new Problem(500, "Broken", "it broke", "broken", []));
  open();
  expect(await card("Failures").findByText("it broke")).toBeTruthy();
  expect(await card("What it was for").findByRole("button", { name: "Try again" })).toBeTruthy();
  expect(await card("Least efficient jobs").findByRole("link", { name: /#1042/ })).toBeTruthy();
});

test.each([
  [{ is_operator: true }, /All jobs of the cluster\./],
  [
    {
      tenants: [
        { name: "acme", role: "manager" as const },
        { name: "labs", role: "member" as const },
      ],
    },
    /All jobs of acme, and your own\./,
  ],
  [{}, /Your own jobs\./],
])("it says whose jobs are shown %#", (me, words) => {
  open(me);
  expect(screen.getByText(words)).toBeTruthy();
});

test("the period is in the address, and what is asked and downloaded is of it", async () => {
  search.since = "90d";
  open();
  const here = screen.getAllByRole("link").filter((link) => link.hasAttribute("aria-current"));
  expect(here.map((link) => link.textContent)).toEqual(["90 days"]);
  expect(screen.getByRole("link", { name: "CSV" }).getAttribute("href")).toBe(
    "/csv?by=week,user,vc,gpu_type,outcome&since=90d",
  );
  expect(await screen.findByText("GPU-hours by week")).toBeTruthy();
  expect(api.getUsage).toHaveBeenCalledWith("week,outcome", { since: "90d" });
});

const OF_TENANTS: Usage = {
  ...NO_USE,
  results: [
    { ...ROW, ...amount(6), tenant: "nlp", outcome: "succeeded" },
    { ...ROW, ...amount(2), tenant: "nlp", outcome: "failed" },
    { ...ROW, ...amount(24), tenant: "vision", outcome: "succeeded" },
  ],
};

test("tenants are compared, the largest first, and each name narrows the page to it", async () => {
  vi.mocked(api.getUsage).mockResolvedValue(OF_TENANTS);
  open({ is_operator: true });
  const consumers = card("GPU-hours by tenant and user");
  const links = await consumers.findAllByRole("link");
  expect(links.map((link) => [link.textContent, link.getAttribute("href")])).toEqual([
    ["vision", "/insights?since=7d&tenant=vision&user="],
    ["nlp", "/insights?since=7d&tenant=nlp&user="],
  ]);
  expect(consumers.getByText(/8\.00/).parentElement?.textContent).toBe("8.00 GPU-hours · 25 % · 25 % wasted");
});

test("a page narrowed to a tenant asks for it alone, compares its users, and has a way back", async () => {
  search.tenant = "nlp";
  open({ is_operator: true });
  const back = within(screen.getByRole("list", { name: "Narrowed to" })).getByRole("link");
  expect(back.getAttribute("href")).toBe("/insights?since=7d&tenant=&user=");
  expect(await screen.findByRole("heading", { name: "GPU-hours by user" })).toBeTruthy();
  const filter = { since: "7d", tenant: "nlp", user: undefined };
  expect(api.getUsage).toHaveBeenCalledWith("user,outcome", filter);
  expect(api.getWaste).toHaveBeenLastCalledWith(filter);
  expect(api.listLeastEfficient).toHaveBeenLastCalledWith(filter);
});

test("tells how much slower than alone the jobs were that ended", async () => {
  open();
  const card = within(await screen.findByRole("region", { name: "Slower or faster than alone" }));
  expect(card.getByText("Ended in the last 7 days")).toBeTruthy();
  expect(card.getByRole("rowheader", { name: "vision" })).toBeTruthy();
  expect(card.getAllByText("1.30×")).toHaveLength(2);
});

test("waits are told by delay, in a sentence and as bars by week, tenant or size", async () => {
  open();
  const card = await screen.findByRole("region", { name: "Waits before a start" });
  const sentence = "Mean over 3 starts and 1 waiting job: capacity 10m, order 1m.";
  expect((await within(card).findAllByText(sentence)).length).toBe(2);
  fireEvent.click(within(card).getByRole("radio", { name: "GPUs" }));
  await waitFor(() => expect(vi.mocked(api.getDelayUsage).mock.lastCall?.[0]).toBe("size"));
  await within(card).findByText(">8");
});
