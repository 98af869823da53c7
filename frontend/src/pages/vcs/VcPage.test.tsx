import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { fireEvent, render, screen, waitFor, within } from "@testing-library/react";
import type { ReactNode } from "react";
import { beforeEach, expect, test, vi } from "vitest";

import * as api from "../../api/client";
import * as treeApi from "../../api/tree";
import { Problem } from "../../api/problem";
import {
  AT,
  makeCell,
  makePoolCells,
  makeQuota,
  makeVc,
  makeVcCells,
  makeVirtualCell,
} from "../../testing/makers";
import { VcPage } from "./VcPage";
import { VcsPage } from "./VcsPage";

vi.mock("@tanstack/react-router", () => ({
  getRouteApi: () => ({ useParams: () => ({ name: "vision-vc" }) }),
  Link: ({ children, to, params }: { children: ReactNode; to: string; params?: Record<string, string> }) => (
    <a href={to.replace(/\$\w+/, Object.values(params ?? {})[0] ?? "")}>{children}</a>
  ),
}));
vi.mock("../../api/client");
vi.mock("../../api/tree");

function poolWith(admission: string) {
  const pool = { name: "main", policy: "fifo", placement: "", admission, nodes: 2 };
  const gpus = [{ type: "A100", total: 16, used: 4, free: 12 }];
  vi.mocked(api.listPools).mockResolvedValue({ results: [{ ...pool, gpus }], next: null });
}

function show(page: ReactNode) {
  const client = new QueryClient({ defaultOptions: { queries: { retry: false, staleTime: Infinity } } });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={client}>{page}</QueryClientProvider>
    </MantineProvider>,
  );
}

function given(vc: ReturnType<typeof makeVc>, ...others: ReturnType<typeof makeVc>[]) {
  vi.mocked(api.listVcs).mockResolvedValue({ results: [vc, ...others], next: null });
  vi.mocked(treeApi.getVc).mockResolvedValue(vc);
}

beforeEach(() => {
  vi.resetAllMocks();
  poolWith("quota");
  given(makeVc());
  const nothing = { results: [], next: null };
  vi.mocked(treeApi.listTenants).mockResolvedValue(nothing);
  vi.mocked(treeApi.listOrganisations).mockResolvedValue(nothing);
  vi.mocked(treeApi.getDelays).mockResolvedValue({ from: AT(0), to: AT(60), by: "day", results: [] });
});

test("a member sees quota, loans and limits, and no form", async () => {
  const loan = {
    direction: "lent",
    other: "another tenant",
    gpu_type: "A100",
    gpus: 2,
    since: AT(0),
  } as const;
  given(
    makeVc({
      quotas: [makeQuota({ used: 5, borrowed: 1, lent: 2 })],
      loans: [
        { ...loan, until: null },
        { ...loan, direction: "borrowed", other: "speech-vc", until: AT(3600) },
      ],
    }),
  );
  show(<VcPage />);
  expect(
    await screen.findByRole("img", { name: "vision-vc, A100: 4 of 8 used, 2 lent, 2 free, 1 borrowed" }),
  ).toBeTruthy();
  const loans = await screen.findByRole("region", { name: "Loans" });
  expect(within(loans).getByRole("row", { name: /Lent to another tenant 2 A100 .* open/ })).toBeTruthy();
  expect(within(loans).getByRole("row", { name: /Borrowed from speech-vc 2 A100 .* 1h 00m/ })).toBeTruthy();
  expect(screen.queryByRole("region", { name: "Change quotas" })).toBeNull();
});

test("an operator sees while typing what does not fit, and the server's sentence at the field", async () => {
  given(makeVc({ may: "operate" }), makeVc({ id: 6, name: "other", quotas: [makeQuota({ gpus: 6 })] }));
  vi.mocked(treeApi.changeVc).mockRejectedValue(
    new Problem(422, "Invalid", "the pool has 16 A100, and 6 are promised", "invalid", [
      { field: "quotas.0.gpus", message: "only 10 A100 are not promised" },
    ]),
  );
  show(<VcPage />);
  fireEvent.change(await screen.findByRole("textbox", { name: "A100: GPUs" }), { target: { value: "11" } });
  expect(screen.getByText("6 promised to others + 11 = 17 of 16: 1 too many")).toBeTruthy();
  expect(await screen.findByText("Only 10 A100 are not promised")).toBeTruthy();
  expect(screen.getByRole("alert").textContent).toBe("the pool has 16 A100, and 6 are promised");
  expect(treeApi.changeVc).toHaveBeenCalledWith(
    5,
    { version: 3, quotas: [{ gpu_type: "A100", gpus: 11 }] },
    true,
  );
  expect(screen.getByRole<HTMLButtonElement>("button", { name: "Save" }).disabled).toBe(true);
});

test("what fits is saved, and who saved meanwhile is named with a way to load it", async () => {
  const vc = makeVc({ may: "manage" });
  given(vc);
  vi.mocked(treeApi.changeVc).mockImplementation((_, __, dryRun) =>
    dryRun === true
      ? Promise.resolve(vc)
      : Promise.reject(new Problem(409, "Conflict", "otto changed vision-vc at 12:00", "conflict", [])),
  );
  show(<VcPage />);
  const weight = await screen.findByRole<HTMLInputElement>("textbox", { name: "Weight" });
  fireEvent.change(weight, { target: { value: "2" } });
  expect(await screen.findByText("This fits.")).toBeTruthy();
  fireEvent.click(screen.getByRole("button", { name: "Save" }));
  const alert = await screen.findByRole("alert");
  expect(within(alert).getByText("otto changed vision-vc at 12:00")).toBeTruthy();
  vi.mocked(treeApi.getVc).mockResolvedValue({ ...vc, weight: 4, version: 4 });
  fireEvent.click(within(alert).getByRole("button", { name: "Reload" }));
  await waitFor(() => expect(weight.value).toBe("4"));
  expect(screen.queryByRole("alert")).toBeNull();
});

test("a pool in cells shows them as boxes and as a table, and which jobs a change would cost their cells", async () => {
  poolWith("hived");
  given(makeVc({ may: "operate" }));
  const virtual = makeVirtualCell({ physical: "r1/n1", state: "used", used: 6, jobs: [12] });
  vi.mocked(treeApi.getVcCells).mockResolvedValue(
    makeVcCells({ virtual: [virtual], opportunistic_gpus: 3, demoted: [9] }),
  );
  vi.mocked(treeApi.getPoolCells).mockResolvedValue(
    makePoolCells({ physical: [makeCell({ used: 6, opportunistic: 2 })] }),
  );
  vi.mocked(treeApi.previewVcCells).mockResolvedValue({
    fits: true,
    problem: "",
    field: "",
    opportunistic: [{ job: 12, vc: "vision-vc", why: "it has no cell any more" }],
  });
  show(<VcPage />);
  const shown = await screen.findByRole("region", { name: "Cells" });
  expect(shown.textContent).toContain("3 GPUs borrowed outside of these cells, by opportunistic jobs.");
  expect(within(shown).getByRole("link", { name: "9" }).getAttribute("href")).toBe("/jobs/9");
  await within(shown).findByText(/6 used by guaranteed jobs, 2 by opportunistic jobs/);
  fireEvent.click(within(shown).getByRole("button", { name: "Table" }));
  expect(within(shown).getByRole("row", { name: /A100-NODE .* 8 in use 6 2 r1\/n1 12/ })).toBeTruthy();

  fireEvent.change(await screen.findByRole("textbox", { name: "Cells of type A100-RACK.A100-NODE" }), {
    target: { value: "0" },
  });
  expect(await screen.findByText(/1 running job would become opportunistic/)).toBeTruthy();
  expect(screen.getByRole("link", { name: "job 12 of vision-vc" }).getAttribute("href")).toBe("/jobs/12");
  expect(treeApi.previewVcCells).toHaveBeenCalledWith(5, { cells: {}, pinned: [] });
  await waitFor(() =>
    expect(screen.getAllByRole<HTMLButtonElement>("button", { name: "Save" })[1]?.disabled).toBe(false),
  );
});

test("a virtual cluster that one may not see is not there", async () => {
  given(makeVc({ name: "other" }));
  show(<VcPage />);
  expect(await screen.findByText("There is no virtual cluster vision-vc")).toBeTruthy();
});

test("the list shows the tree with what each holds", async () => {
  given(makeVc({ organisation: "lab" }), makeVc({ id: 6, name: "free-vc", tenant: "alone", quotas: [] }));
  show(<VcsPage />);
  const lab = await screen.findByRole("region", { name: "lab" });
  expect(within(lab).getByRole("link", { name: "vision-vc" }).getAttribute("href")).toBe("/vcs/vision-vc");
  expect(within(lab).getByRole("link", { name: "vision" }).getAttribute("href")).toBe("/tenants/vision");
  expect(within(screen.getByRole("region", { name: "Tenant alone" })).getByText("No GPU quota")).toBeTruthy();
});
