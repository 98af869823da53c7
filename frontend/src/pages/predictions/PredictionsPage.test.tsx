import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { fireEvent, render, screen, within } from "@testing-library/react";
import type { ReactNode } from "react";
import { beforeEach, expect, test, vi } from "vitest";

import * as api from "../../api/client";
import * as predictionsApi from "../../api/predictions";
import { Problem } from "../../api/problem";
import type { RunTimeRecord, WaitRecord } from "../../api/types";
import { AT } from "../../testing/makers";
import { PredictionsPage } from "./PredictionsPage";

const route = vi.hoisted(() => ({ search: {}, navigate: vi.fn() }));

vi.mock("@tanstack/react-router", () => ({
  getRouteApi: () => ({ useSearch: () => route.search, useNavigate: () => route.navigate }),
  Link: ({ to, params, search, children, "aria-current": current }: LinkProps) => (
    <a
      href={`${to.replace("$jobId", params?.jobId ?? "")}${search === undefined ? "" : `?weeks=${search.weeks}`}`}
      aria-current={current}
    >
      {children}
    </a>
  ),
}));
vi.mock("../../api/client");
vi.mock("../../api/predictions");

interface LinkProps {
  to: string;
  params?: { jobId: string };
  search?: { weeks: string };
  children: ReactNode;
  "aria-current"?: "true" | undefined;
}

const FIGURES = {
  jobs: 40,
  quick_expected: 0.6,
  quick_real: 0.625,
  balanced_accuracy: 0.87,
  p90_coverage: 0.91,
  two_sided_coverage: 0.78,
  pinball: { model: 0.31, forward: 0.42, combined: 0.29 },
};

const WAITS: WaitRecord = {
  pool: "main",
  unknown: "",
  weeks: [
    {
      ...FIGURES,
      begins: "2026-11-16",
      two_sided_coverage: null,
      pinball: { ...FIGURES.pinball, model: null },
    },
    { ...FIGURES, begins: "2026-11-23", p90_coverage: 0.7 },
  ],
  total: FIGURES,
  reliability: [
    { begins: 0.1, ends: 0.2, expected: 0.14, real: 0.1, jobs: 10 },
    { begins: 0.8, ends: 0.9, expected: 0.84, real: 0.5, jobs: 30 },
  ],
  worst: [{ id: 1042, name: "train", expected_p90_s: 7200, waited_s: 33_120, submitted_at: AT(0) }],
  drift: { alarm: false, says: "91 of the last 100 waits were within their p90" },
  trained_at: AT(0),
  rows: 1234,
};

const NOTHING: WaitRecord = {
  ...WAITS,
  unknown: "no job of this pool has started yet",
  weeks: [],
  total: null,
  reliability: [],
  worst: [],
  trained_at: null,
  rows: 0,
};

const SCORES = { jobs: 500, pinball_model: 0.41, pinball_last_two: 0.47, coverage80: 0.81, spearman: 0.52 };

const RUN_TIMES: RunTimeRecord = {
  weeks: [{ begins: "2026-11-23", jobs: 25, coverage80: 0.82, median_ratio: 1.31, pinball: 0.4 }],
  estimates: [
    { owner: "ada", jobs: 12, median_ratio: 0.42, within_2x: 0.5 },
    { owner: "bob", jobs: 3, median_ratio: 1.1, within_2x: 1 },
  ],
  model: { version: 4, trained_at: AT(0), rows: 5000, scores: SCORES },
  unknown: "",
};

const pool = (name: string) => ({ name, policy: "fifo", placement: "", admission: "", nodes: 1, gpus: [] });

beforeEach(() => {
  vi.clearAllMocks();
  route.search = {};
  vi.mocked(api.listPools).mockResolvedValue({ results: [pool("main"), pool("old")], next: null });
  vi.mocked(predictionsApi.getWaitRecord).mockResolvedValue(WAITS);
  vi.mocked(predictionsApi.getRunTimeRecord).mockResolvedValue(RUN_TIMES);
});

function open() {
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient({ defaultOptions: { queries: { retry: false } } })}>
        <PredictionsPage />
      </QueryClientProvider>
    </MantineProvider>,
  );
}

const card = async (name: string) => within(await screen.findByRole("region", { name }));
const rows = async (name: string) =>
  within(await screen.findByRole("group", { name }))
    .getAllByRole("row")
    .slice(1)
    .map((row) => Array.from(row.children, (cell) => cell.textContent));

test("each week has its figures, the newest first, and a figure without a job has a dash", async () => {
  open();
  const figures = ["40", "60 %", "63 %", "87 %"];
  expect(await rows("Figures by week")).toEqual([
    ["Nov\u00a023", ...figures, "70 %", "78 %", "0.31", "0.42", "0.29"],
    ["Nov\u00a016", ...figures, "91 %", "–", "–", "0.42", "0.29"],
    ["All weeks", ...figures, "91 %", "78 %", "0.31", "0.42", "0.29"],
  ]);
  expect(screen.getByText(/Model of 1,234 waits/)).toBeTruthy();
});

test("both charts say in words what they draw", async () => {
  open();
  expect((await card("Quick starts")).getByText(/of 30 jobs expected at 84 %, 50 % started/)).toBeTruthy();
  expect(
    (await card("Coverage")).getByText(/^Within the p90: 70 % to 91 % by week, goal 90 %\./),
  ).toBeTruthy();
});

test("the worst misses are links to their jobs", async () => {
  open();
  const misses = await card("Worst misses");
  expect(misses.getByRole("link").getAttribute("href")).toBe("/jobs/1042");
  expect(misses.getByText("waited 9h 12m; 90 % within 2h 00m was forecast")).toBeTruthy();
});

test("drift is a banner only while it is alarming", async () => {
  open();
  await card("Coverage");
  expect(screen.queryByRole("region", { name: "Drift" })).toBeNull();
});

test("an alarm says which figures raised it", async () => {
  const says = "61 of the last 100 waits were within their p90";
  vi.mocked(predictionsApi.getWaitRecord).mockResolvedValue({ ...WAITS, drift: { alarm: true, says } });
  open();
  expect((await card("Drift")).getByText(says)).toBeTruthy();
});

test("before the first start it says what is missing and when it comes", async () => {
  vi.mocked(predictionsApi.getWaitRecord).mockResolvedValue(NOTHING);
  vi.mocked(predictionsApi.getRunTimeRecord).mockResolvedValue({
    weeks: [],
    estimates: [],
    model: null,
    unknown: "no job that you may see has ended yet",
  });
  open();
  expect(
    (await card("Waits")).getByText(
      /In pool main no job of this pool has started yet\. A forecast is judged when/,
    ),
  );
  expect(
    (await card("Run times")).getByText(
      "No job that you may see has ended yet. An estimate is judged when its job ends.",
    ),
  ).toBeTruthy();
  expect((await card("Run times")).getByText("No model is in use yet")).toBeTruthy();
  expect(
    (await card("Owners’ estimates")).getByText("No job with an estimate of its owner has ended"),
  ).toBeTruthy();
});

test("estimates of run times have a record by week, and those of owners one by owner", async () => {
  open();
  expect(await rows("Run times by week")).toEqual([["Nov\u00a023", "25", "82 %", "1.3 ×", "0.40"]]);
  expect(await rows("Estimates by owner")).toEqual([
    ["ada", "12", "0.42 ×", "50 %"],
    ["bob", "3", "1.1 ×", "100 %"],
  ]);
  expect(screen.getByText(/Model 4 of 5,000 runs/)).toBeTruthy();
  expect(
    screen.getByText(/500 runs.*: pinball loss 0\.41 \(by the owner’s last two runs 0\.47\), 81 %/),
  ).toBeTruthy();
});

test("pool and weeks are in the address, and what is asked is of them", async () => {
  route.search = { pool: "old", weeks: "26" };
  open();
  await card("Coverage");
  expect(predictionsApi.getWaitRecord).toHaveBeenCalledWith("old", 26);
  const here = screen.getAllByRole("link").filter((link) => link.hasAttribute("aria-current"));
  expect(here.map((link) => link.getAttribute("href"))).toEqual(["/predictions?weeks=26"]);
  fireEvent.change(screen.getByRole("combobox", { name: "Pool" }), { target: { value: "main" } });
  expect(route.navigate).toHaveBeenCalledOnce();
});

test("what could not be loaded says so by itself", async () => {
  const broken = new Problem(500, "Broken", "it broke", "broken", []);
  vi.mocked(predictionsApi.getWaitRecord).mockRejectedValue(broken);
  open();
  expect(await screen.findByText("it broke")).toBeTruthy();
  expect((await card("Run times")).getByText(/Model 4/)).toBeTruthy();
});
