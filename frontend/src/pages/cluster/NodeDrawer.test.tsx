import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import type { ReactNode } from "react";
import { expect, test, vi } from "vitest";

import * as api from "../../api/client";
import { meQuery } from "../../api/queries";
import type { NodeDetail } from "../../api/types";
import { makeGpu, makeNodeDetail } from "../../testing/makers";
import { NodeDrawer } from "./NodeDrawer";

vi.mock("@tanstack/react-router", () => ({
  Link: ({ params, children }: { params: { jobId: string }; children: ReactNode }) => (
    <a href={`/jobs/${params.jobId}`}>{children}</a>
  ),
}));
vi.mock("../../api/client");
// There is no canvas here; charts have tests of their own.
vi.mock("./NodeMetrics", () => ({ default: () => null }));

const LINKED = {
  gpus: [0, 1, 2].map((index) => makeGpu({ index, uuid: `GPU-${index}`, numa_node: 0 })),
  links: [
    [0, 40, 1],
    [40, 0, 1],
    [1, 1, 0],
  ],
};
const STRIKE = {
  at: "2026-03-01T12:00:00Z",
  reason: "launch_failed",
  gpu: null,
  job: 7,
  detail: "cannot start: No space left on device",
  forgiven_at: null,
} as const;

function nth(elements: readonly HTMLElement[], index: number): HTMLElement {
  const found = elements[index];
  if (found === undefined) throw new Error(`there is no element ${index}`);
  return found;
}

function open(node: NodeDetail, { operator = false } = {}) {
  vi.mocked(api.getNode).mockResolvedValue(node);
  const client = new QueryClient({ defaultOptions: { queries: { retry: false, staleTime: Infinity } } });
  client.setQueryData(meQuery.queryKey, {
    username: "ada",
    email: "",
    is_operator: operator,
    tenants: [],
    vcs: [],
    default_vc: null,
  });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={client}>
        <NodeDrawer node={node} onClose={() => undefined} />
      </QueryClientProvider>
    </MantineProvider>,
  );
}

test("the links are a table whose rows and columns are named by GPU", async () => {
  open(makeNodeDetail(LINKED));
  const section = await screen.findByRole("region", { name: "Links between GPUs" });
  const tables = within(section).getAllByRole("table");
  const [matrix, legend] = [within(nth(tables, 0)), within(nth(tables, 1))];
  const rows = matrix.getAllByRole("row");
  expect(rows.map((row) => [...row.children].map((cell) => cell.textContent))).toEqual([
    ["GPU", "0", "1", "2"],
    ["0", "–", "NV4", "SYS"],
    ["1", "NV4", "–", "SYS"],
    ["2", "SYS", "SYS", "–"],
  ]);
  expect(matrix.getAllByRole("rowheader")).toHaveLength(3);
  expect(matrix.getAllByRole("columnheader")).toHaveLength(4);
  const meanings = legend.getAllByRole("row").slice(1);
  expect(meanings.map((row) => [...row.children].map((cell) => cell.textContent))).toEqual([
    ["NV4", "4 NVLinks", "40"],
    ["SYS", "Across sockets", "1"],
  ]);
  expect(section.textContent).toContain("GPUs 0 to 2 on NUMA node 0.");
});

test("without known links, no table is shown", async () => {
  open(makeNodeDetail({ ...LINKED, links: [], strikes: 1, last_strikes: [STRIKE] }));
  await screen.findByRole("region", { name: /Strikes/ });
  expect(screen.queryByRole("table")).toBeNull();
});

test("a silent node can be declared gone, with a reason and when asked again", async () => {
  const user = userEvent.setup();
  open(makeNodeDetail({ name: "n1", health: "suspect" }), { operator: true });
  await user.click(screen.getByRole("button", { name: "Declare gone…" }));
  const question = await screen.findByRole("dialog", { name: "Declare n1 gone?" });
  expect(await within(question).findByText(/Be sure that the machine runs nothing any more/)).toBeDefined();
  const yes = within(question).getByRole("button", { name: "Declare gone" });
  await user.click(yes);
  expect(within(question).getByText("Write a reason.")).toBeDefined();
  expect(api.declareNodeGone).not.toHaveBeenCalled();
  await user.type(within(question).getByLabelText("Reason"), " power supply burnt ");
  await user.click(yes);
  expect(api.declareNodeGone).toHaveBeenCalledWith("n1", "power supply burnt");
});

const RUNNING = {
  id: 7,
  name: "train",
  owner: "ada",
  tenant: "vision",
  gpus: 8,
  nodes: 2,
  preemptible: true,
};

test("jobs are moved off only after the dialog has named those that it would stop", async () => {
  const user = userEvent.setup();
  const waited = { ...RUNNING, id: 8, name: "serve", owner: "bob", gpus: 1, nodes: 1, preemptible: false };
  open(makeNodeDetail({ name: "n1", running_jobs: [RUNNING, waited] }), { operator: true });
  await user.click(screen.getByRole("button", { name: "Move jobs off…" }));
  const question = await screen.findByRole("dialog", { name: "Move jobs off n1?" });
  const stopped = await within(question).findByRole("list", { name: /save their work, stop/ });
  expect(stopped.textContent).toBe("#7 trainada of vision · 8 GPUs on 2 nodes");
  expect(within(question).getByRole("list", { name: /not preemptible/ }).textContent).toContain("#8 serve");
  expect(api.changeNode).not.toHaveBeenCalled();
  await user.type(within(question).getByLabelText("Reason"), "fan{Enter}");
  expect(api.changeNode).toHaveBeenCalledWith("n1", "move-off", "fan");
});

test("a drained node is resumed at once", async () => {
  const user = userEvent.setup();
  open(makeNodeDetail({ name: "n1", admin: "draining" }), { operator: true });
  await user.click(screen.getByRole("button", { name: "Resume" }));
  expect(api.changeNode).toHaveBeenCalledWith("n1", "resume", undefined);
  expect(screen.queryByRole("button", { name: "Drain…" })).toBeNull();
});

test("a node that answers cannot be declared gone, and only operators can declare one gone", () => {
  open(makeNodeDetail({ health: "ready" }), { operator: true });
  expect(screen.getByRole("button", { name: "Cordon…" })).toBeDefined();
  expect(screen.queryByRole("button", { name: "Declare gone…" })).toBeNull();
});

test("a link over SSH is told, and why it fails to whom that is shown", async () => {
  const link = {
    state: "host_key_changed",
    reason: "the server shows another key",
    since: STRIKE.at,
  } as const;
  open(makeNodeDetail({ link }));
  expect(await screen.findByText(/host key changed/)).toBeDefined();
  expect(screen.getByText("the server shows another key")).toBeDefined();
});

test("a node whose agent calls by itself has no link over SSH", () => {
  open(makeNodeDetail());
  expect(screen.queryByText("SSH link")).toBeNull();
});

test("a node that nothing may start on says why, and what its drivers are", async () => {
  const versions = { driver_version: "570.1", toolkit_version: "1.17.7" };
  open(makeNodeDetail({ barred: "its NVIDIA Container Toolkit is 1.17.7", ...versions }));
  expect(await screen.findByText("1.17.7")).toBeDefined();
  expect(screen.getByText("570.1")).toBeDefined();
  expect(screen.getByText("Nothing starts here: its NVIDIA Container Toolkit is 1.17.7")).toBeDefined();
  expect(screen.getByText("Barred")).toBeDefined();
});

test("a single-user node says whose jobs it takes", async () => {
  open(makeNodeDetail({ single_user: true }));
  expect(
    await screen.findByText("All jobs here run as one account. It takes jobs of one tenant."),
  ).toBeDefined();
});

test("a node without control groups says that it enforces no memory limit", async () => {
  open(makeNodeDetail({ labels: { limits: "advisory" }, runtimes: ["process"] }));
  expect(await screen.findByText("The memory limit of jobs is not enforced here.")).toBeDefined();
});

test("a node says what jobs run in, and why it offers no containers", async () => {
  open(makeNodeDetail({ labels: { limits: "advisory" } }));
  expect(await screen.findByText("in docker with an image, else as processes")).toBeDefined();
  expect(screen.getByText("The memory limit of jobs is enforced in containers only.")).toBeDefined();
  expect(screen.queryByText(/No containers here/)).toBeNull();
});

test("the node of an agent in a container is for trying out, and shows how a real server joins", async () => {
  const install = "curl -fsSLO …\ninstall -m 755 muster-agent.pyz …";
  const why = "its agent runs with --runtime process";
  open(makeNodeDetail({ runtimes: ["process"], no_containers: why, agent_in_container: true, install }));
  expect(await screen.findByText(`No containers here: ${why}.`)).toBeDefined();
  expect(screen.getByText(/This node is for trying out/)).toBeDefined();
  expect(await screen.findByText(/muster-agent\.pyz/)).toBeDefined();
});

test("a node whose gangs have the host's network says which setting gives it", async () => {
  open(
    makeNodeDetail({
      host_network: "the gang network of pool main is host",
      labels: { "default-image": "" },
    }),
  );
  const said = "Gangs in containers have the host's network here: the gang network of pool main is host.";
  expect(await screen.findByText(said)).toBeDefined();
  expect(screen.queryByText(/default-image/)).toBeNull();
});

test("how full the disk of a node is can be seen, where its agent tells it", async () => {
  open(makeNodeDetail({ disk_mib: 102400, disk_free_mib: 25600 }));
  const meter = await screen.findByRole("meter", { name: "Disk in use" });
  expect(meter.getAttribute("aria-valuenow")).toBe("75");
  expect(screen.getByText("75 GiB / 100 GiB")).toBeDefined();
});

test("of drivers that a node does not have nothing is said", async () => {
  open(makeNodeDetail(LINKED));
  await screen.findByRole("region", { name: "Links between GPUs" });
  expect(screen.queryByText("GPU driver")).toBeNull();
  expect(screen.queryByText(/Nothing starts here/)).toBeNull();
});

test("strikes are told with their reasons, and those that are forgiven as such", async () => {
  const lost = { ...STRIKE, reason: "gpu_lost", gpu: 2, job: null, detail: null } as const;
  open(makeNodeDetail({ strikes: 1.53, last_strikes: [STRIKE, { ...lost, forgiven_at: STRIKE.at }] }));
  const section = await screen.findByRole("region", { name: "Strikes count 1.5 now" });
  const items = within(section).getAllByRole("listitem");
  const [first, second] = [nth(items, 0), nth(items, 1)];
  expect(first.textContent).toContain("Could not be started");
  expect(first.textContent).toContain("No space left on device");
  expect(within(first).getByRole("link", { name: "Job 7" }).getAttribute("href")).toBe("/jobs/7");
  expect(second.textContent).toContain("GPU left the bus, GPU 2 (forgiven)");
  expect(within(second).queryByRole("link")).toBeNull();
  expect(screen.queryByRole("link", { name: /admin/ })).toBeNull();
});

test("an operator is led to where strikes are forgiven, while any count", async () => {
  open(makeNodeDetail({ name: "n1", strikes: 1, last_strikes: [STRIKE] }), { operator: true });
  const link = await screen.findByRole("link", { name: "Forgive them in the admin" });
  expect(link.getAttribute("href")).toBe("/admin/fleet/node/?q=n1");
});

test("of a node that was never struck nothing is said", async () => {
  open(makeNodeDetail(LINKED), { operator: true });
  await screen.findByRole("region", { name: "Links between GPUs" });
  expect(screen.queryByText(/Strikes/)).toBeNull();
});

const REPORT = {
  at: STRIKE.at,
  last_at: STRIKE.at,
  count: 3,
  gpu: 2,
  kind: "xid",
  xid: 79,
  level: "failure",
  action: "drain_node",
  words: "fallen off the bus",
  detail: null,
  over_at: null,
} as const;

test("what was reported of GPUs is told, and what is over as such", async () => {
  const over = {
    ...REPORT,
    kind: "throttle",
    xid: null,
    level: "warning",
    words: "slowed down",
    over_at: STRIKE.at,
  } as const;
  open(makeNodeDetail({ health_reports: [REPORT, { ...over, count: 1, gpu: null }] }));
  const section = await screen.findByRole("region", { name: "Health of GPUs" });
  const items = within(section).getAllByRole("listitem");
  expect(nth(items, 0).textContent).toContain("Failure, GPU 2, 3 times");
  expect(nth(items, 0).textContent).toContain("Xid 79: fallen off the bus");
  expect(nth(items, 1).textContent).toContain("Warning (over)");
  expect(screen.queryByRole("link", { name: /admin/ })).toBeNull();
});

test("an operator is led to where a GPU that is not well is repaired", async () => {
  const gpus = [makeGpu({ health: "failure", healthy: false })];
  open(makeNodeDetail({ name: "n1", gpus, health_reports: [REPORT] }), { operator: true });
  const link = await screen.findByRole("link", { name: "Repair them in the admin" });
  expect(link.getAttribute("href")).toBe("/admin/fleet/node/?q=n1");
});

const CHECK = {
  gpu: 1,
  wanted: false,
  at: "2026-03-01T12:00:00Z",
  result: "passed",
  how: "matmul",
  detail: "",
  duration_s: 8.25,
  tflops: 312.46,
  gb_s: 1900.04,
  streak: 3,
} as const;

test("what came of checks is told of each GPU", async () => {
  const failed = {
    ...CHECK,
    gpu: 2,
    wanted: true,
    result: "failed",
    tflops: null,
    gb_s: null,
    streak: -1,
    detail: "a product of matrices is wrong",
  } as const;
  open(makeNodeDetail({ gpus: [makeGpu()], gpu_checks: [CHECK, failed] }));
  const section = await screen.findByRole("region", { name: "Checks of GPUs" });
  const items = within(section).getAllByRole("listitem");
  expect(nth(items, 0).textContent).toContain("GPU 1 passed");
  expect(nth(items, 0).textContent).toContain("did work · 312.5 TFLOP/s · 1900 GB/s · 8.3 s · 3 in a row");
  expect(nth(items, 1).textContent).toContain("GPU 2 failed, another is under way");
  expect(nth(items, 1).textContent).toContain("a product of matrices is wrong");
  expect(within(section).queryByRole("button")).toBeNull();
});

test("an operator asks for checks of a node", async () => {
  const node = makeNodeDetail({ name: "n1", gpus: [makeGpu()] });
  vi.mocked(api.checkNode).mockResolvedValue({ ...node, gpu_checks: [{ ...CHECK, wanted: true }] });
  open(node, { operator: true });
  (await screen.findByRole("button", { name: "Check GPUs" })).click();
  await vi.waitFor(() => expect(api.checkNode).toHaveBeenCalledWith("n1"));
});
