import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { fireEvent, render, screen, waitFor, within } from "@testing-library/react";
import { beforeEach, expect, test, vi } from "vitest";

import * as api from "../../api/client";
import { problemFrom } from "../../api/problem";
import { jobQuery, meQuery } from "../../api/queries";
import * as preparing from "./code/prepare";
import { makeJob, makeNode, makeSweep, makeVc } from "../../testing/makers";
import { EXAMPLE_COMMAND } from "./fields";
import { Workbench } from "./Workbench";

const navigate = vi.fn();

vi.mock("@tanstack/react-router", () => ({ useNavigate: () => navigate }));
vi.mock("../../api/client");
// The editor needs a layout, which jsdom has not; what matters here is the text that goes in and out.
vi.mock("./SpecEditor", () => ({
  default: ({ value, onChange }: { value: string; onChange: (text: string) => void }) => (
    <textarea
      aria-label="Job spec in YAML"
      value={value}
      onChange={(event) => onChange(event.target.value)}
    />
  ),
}));

// Packing needs streams, which jsdom has not; it has tests of its own.
vi.mock("./code/prepare", () => ({ openGiven: vi.fn(), prepare: vi.fn() }));

const FITS = {
  valid: true,
  spec: {} as never,
  gpu_choices: [{ gpu_type: null, gpus: 1 }],
  sizes: [
    {
      gpu_type: null,
      gpus: 1,
      cpus: 8,
      memory_mib: 128_000,
      cpus_from: "share of 1 GPU on GPU nodes",
      memory_from: "share of 1 GPU on GPU nodes",
    },
  ],
  notes: ["It names no outputs: its working folder is removed when it ends"],
  gpus_total: 1,
  feasible: true,
  fits_quota: true,
  starts_now: true,
  hold: null,
  position: null,
  screening: { tried: false, why: "it is no larger than a screening run", starts_now: null, hold: null },
  runtime: { runtime: "process" as const, why: "it has no image, mounts or shm", nodes: 2, of: 3 },
  wait: null,
  wait_unknown: "no job of this pool has started yet",
};

beforeEach(() => {
  vi.mocked(api.dryRun).mockResolvedValue(FITS);
  vi.mocked(api.listVcs).mockResolvedValue({ results: [], next: null });
  vi.mocked(api.listPools).mockResolvedValue({ results: [], next: null });
  vi.mocked(api.listNodes).mockResolvedValue({ results: [], next: null });
  vi.mocked(api.submitJob).mockReset();
  navigate.mockReset();
});

async function open(initial: string, cloneOfSweep?: number) {
  const client = new QueryClient({ defaultOptions: { queries: { retry: false, staleTime: Infinity } } });
  client.setQueryData(meQuery.queryKey, {
    username: "ada",
    email: "",
    is_operator: false,
    tenants: [],
    vcs: ["vision"],
    default_vc: "vision",
  });
  const { unmount: leave } = render(
    <MantineProvider env="test">
      <QueryClientProvider client={client}>
        <Workbench initial={initial} cloneOfSweep={cloneOfSweep} schema={{}} side="both" />
      </QueryClientProvider>
    </MantineProvider>,
  );
  const yaml = await screen.findByRole<HTMLTextAreaElement>("textbox", { name: "Job spec in YAML" });
  return { client, yaml, name: screen.getByRole<HTMLInputElement>("textbox", { name: "Name" }), leave };
}

const type = (element: HTMLElement, value: string) => fireEvent.change(element, { target: { value } });

test("what is typed in the form stands in the YAML, comments and all", async () => {
  const { yaml, name } = await open("# mine\nname: a\ncommand: run\n");
  type(name, "b");
  expect(yaml.value).toBe("# mine\nname: b\ncommand: run\n");
});

test("what is typed in the YAML stands in the form", async () => {
  const { yaml, name } = await open("name: a\n");
  type(yaml, "name: typed\ncommand: |\n  one\n  two\n");
  expect(name.value).toBe("typed");
  expect(screen.getByRole<HTMLTextAreaElement>("textbox", { name: "Command" }).value).toBe("one\ntwo\n");
});

test("the form waits while the YAML cannot be read, and nothing can be sent", async () => {
  const { yaml, name } = await open("name: a\n");
  type(yaml, "name: [a\n");
  expect(name.disabled).toBe(true);
  expect(screen.getByText(/^The fields wait .* Line 1 ends before its \[ is closed\.$/)).toBeDefined();
  expect(screen.getByRole<HTMLButtonElement>("button", { name: "Submit job" }).disabled).toBe(true);
});

test("an empty field shows what the job gets, and the dry run says what else to know", async () => {
  await open("command: run\n");
  const memory = screen.getByRole<HTMLInputElement>("textbox", { name: "Memory" });
  await waitFor(() => expect(memory.placeholder).toBe("125 GiB"));
  expect(screen.getByRole<HTMLInputElement>("textbox", { name: "CPUs" }).placeholder).toBe("8");
  expect(screen.getByRole<HTMLInputElement>("textbox", { name: "Time limit" }).placeholder).toBe("none");
  const told = "8 CPUs and 125 GiB of memory (share of 1 GPU on GPU nodes)";
  expect(screen.getByText(`On each node: ${told}.`)).toBeDefined();
  expect(screen.getByText(`On each node ${told}`)).toBeDefined();
  expect(screen.getByText(/^It names no outputs/)).toBeDefined();
});

test("outputs, mounts and the image are fields of their own", async () => {
  const { yaml } = await open("command: run\n");
  type(screen.getByRole("textbox", { name: "Outputs" }), "ckpt/**\n*.csv");
  type(screen.getByRole("textbox", { name: "Mounts" }), "data:/data:ro");
  type(screen.getByRole("textbox", { name: "Container image" }), "pytorch/pytorch:2.9");
  expect(yaml.value).toBe(
    'command: run\nimage: pytorch/pytorch:2.9\noutputs:\n  - ckpt/**\n  - "*.csv"\nmounts:\n  - data:/data:ro\n',
  );
});

test("an error of the server stands at its field", async () => {
  vi.mocked(api.dryRun).mockRejectedValue(
    problemFrom(422, "", { title: "x", errors: [{ field: "memory", message: "write a size" }] }),
  );
  await open("name: a\nmemory: lots\n");
  const memory = screen.getByRole("textbox", { name: "Memory" });
  await waitFor(() => expect(memory.getAttribute("aria-invalid")).toBe("true"));
  expect(screen.getAllByText("write a size").length).toBeGreaterThan(0);
});

test("what was submitted is shown at once and counts as old, for it may have ended before the answer came", async () => {
  vi.mocked(api.submitJob).mockResolvedValue({ ...makeJob({ id: 7 }), notes: [], warnings: [] } as never);
  const { client } = await open("name: a\ncommand: run\n");
  fireEvent.click(screen.getByRole("button", { name: "Submit job" }));
  await waitFor(() => expect(navigate).toHaveBeenCalledWith({ to: "/jobs/$jobId", params: { jobId: "7" } }));
  expect(client.getQueryState(jobQuery(7).queryKey)).toMatchObject({ data: { id: 7 }, dataUpdatedAt: 0 });
});

test("trying again after a lost answer names the same key, another spec another one", async () => {
  vi.mocked(api.submitJob).mockRejectedValue(new Error("lost"));
  const { name } = await open("name: a\ncommand: run\n");
  const button = screen.getByRole("button", { name: "Submit job" });
  const submit = async (times: number) => {
    fireEvent.click(button);
    await waitFor(() => expect(api.submitJob).toHaveBeenCalledTimes(times));
    await waitFor(() => expect(button.hasAttribute("data-loading")).toBe(false));
  };
  await submit(1);
  await submit(2);
  type(name, "b");
  await submit(3);
  const keys = vi.mocked(api.submitJob).mock.calls.map(([, key]) => key);
  expect(keys[0]).toBe(keys[1]);
  expect(keys[2]).not.toBe(keys[0]);
  expect(navigate).not.toHaveBeenCalled();
});

test("of a job to be screened it says whether the screening run could start, and else why not", async () => {
  const tried = { tried: true, why: "on 2 GPUs of pool small", starts_now: true, hold: null };
  const waits = {
    reason: "quota" as const,
    detail: "Its screening runs hold 2 GPUs",
    helps: ["wait for them"],
  };
  vi.mocked(api.dryRun)
    .mockResolvedValueOnce({ ...FITS, starts_now: false, screening: tried })
    .mockResolvedValue({
      ...FITS,
      starts_now: false,
      screening: { ...tried, starts_now: false, hold: waits },
    });
  const { name } = await open("name: a\ncommand: run\n");
  expect(await screen.findByText(/on 2 GPUs of pool small; that would start now/)).toBeDefined();
  expect(screen.getByText("It would start after that")).toBeDefined();
  type(name, "b");
  expect(await screen.findByText(/for that it would wait/)).toBeDefined();
  expect(screen.getByText("Its screening runs hold 2 GPUs")).toBeDefined();
});

/** A pool with two types of GPUs, of which one node is another pool's. */
function withNodes() {
  const gpus = [{ type: "A100" }, { type: "V100" }];
  const vc = makeVc({ name: "vision", tenant: "acme", quotas: [] });
  vi.mocked(api.listVcs).mockResolvedValue({ results: [vc], next: null });
  vi.mocked(api.listPools).mockResolvedValue({ results: [{ name: "main", gpus } as never], next: null });
  const nodes = ["gpu01", "gpu02", "gpu07"].map((name) => makeNode({ name }));
  const results = [...nodes, makeNode({ name: "other1", pool: "other" })];
  vi.mocked(api.listNodes).mockResolvedValue({ results, next: null });
}

const combobox = (name: string) => screen.findByRole("combobox", { name });

/** What is offered in an opened list. */
async function offered(name: string): Promise<HTMLElement[]> {
  fireEvent.click(await combobox(name));
  return within(await screen.findByRole("listbox", { name })).getAllByRole("option");
}

async function pick(name: string, option: string): Promise<void> {
  const found = (await offered(name)).find((each) => each.textContent === option);
  if (found === undefined) throw new Error(`${name} does not offer ${option}`);
  fireEvent.click(found);
}

const WAIT = {
  quick: 0.2,
  p10_s: 1800,
  p50_s: 7200,
  p90_s: 21_600,
  source: "combined" as const,
  says: "in about 2 h, 90 % within 6 h",
};

test("of a job that would wait it says when it would start, or why that is not known", async () => {
  const waits = { ...FITS, starts_now: false };
  vi.mocked(api.dryRun)
    .mockResolvedValueOnce({ ...waits, wait: WAIT, wait_unknown: "" })
    .mockResolvedValue(waits);
  const { yaml } = await open("command: run\n");
  expect(await screen.findByText("Its start: in about 2 h, 90 % within 6 h")).toBeTruthy();
  type(yaml, "command: walk\n");
  expect(
    await screen.findByText("When it would start is not known: no job of this pool has started yet"),
  ).toBeTruthy();
});

test("the nodes to use and to avoid are chosen from those of the pool", async () => {
  withNodes();
  const { yaml } = await open("command: run\n");
  const names = (await offered("Nodes to use")).map((option) => option.textContent);
  expect(names).toEqual(["gpu01", "gpu02", "gpu07"]);
  await pick("Nodes to use", "gpu01");
  await pick("Nodes to use", "gpu02");
  expect(yaml.value).toBe("command: run\nnodes_in:\n  - gpu01\n  - gpu02\n");
  await pick("Nodes to avoid", "gpu07");
  expect(yaml.value).toContain("exclude_nodes:\n  - gpu07\n");
});

test("a second GPU type is offered beside a first one, and leaves with it", async () => {
  withNodes();
  const { yaml } = await open("gpus: A100:4\ncommand: run\n");
  await pick("Or GPU type", "V100");
  expect(yaml.value).toBe("gpus:\n  any_of:\n    - A100:4\n    - V100:4\ncommand: run\n");
  type(screen.getByRole("textbox", { name: "Or GPUs" }), "8");
  expect(yaml.value).toContain("- V100:8");
  await pick("GPU type", "Any type");
  expect(yaml.value).toBe("gpus: 4\ncommand: run\n");
  expect(screen.queryByRole("textbox", { name: "Or GPUs" })).toBeNull();
});

test("the sizes of a job that may be resized are typed beside its GPUs", async () => {
  const { yaml } = await open("gpus: 2\ncommand: run\n");
  type(screen.getByRole("textbox", { name: "Fewest GPUs" }), "1");
  type(screen.getByRole("textbox", { name: "Most GPUs" }), "8");
  expect(yaml.value).toContain("elastic:\n  min: 1\n  max: 8\n");
  await pick("These are GPUs of", "gang");
  expect(yaml.value).toContain("elastic:\n  min: 1\n  max: 8\n  over: gang\n");
  await pick("These are GPUs of", "node");
  expect(yaml.value).not.toContain("over");
});

test("what is wrong with the second choice stands at the second choice", async () => {
  withNodes();
  vi.mocked(api.dryRun).mockRejectedValue(
    problemFrom(422, "", { title: "x", errors: [{ field: "gpus.any_of.1", message: "no node has T4" }] }),
  );
  await open("gpus: {any_of: [A100:4, T4:8]}\ncommand: run\n");
  const second = await screen.findByRole("textbox", { name: "Or GPUs" });
  await waitFor(() => expect(second.getAttribute("aria-invalid")).toBe("true"));
  expect(screen.getByRole("textbox", { name: "GPUs" }).getAttribute("aria-invalid")).not.toBe("true");
});

const DIGEST = "ab".repeat(32);

/** What the page finds in a folder or an archive, without the packing itself. */
function prepared(...paths: string[]): preparing.Prepared {
  const entries = paths.map((path) => ({ path, size: 2048, isFolder: false }));
  const source = {
    name: "code",
    note: "",
    ignored: 0,
    entries,
    open: () => [],
    readText: () => Promise.resolve(null),
    ready: null,
  };
  vi.mocked(preparing.openGiven).mockResolvedValue(source);
  const result = { archive: new Blob(["packed"]), sha256: DIGEST, entries, ignored: 2 };
  vi.mocked(preparing.prepare).mockReset().mockResolvedValue(result);
  vi.mocked(api.isUploaded).mockReset().mockResolvedValue(false);
  vi.mocked(api.upload).mockReset().mockResolvedValue({ sha256: DIGEST, size: 6 });
  return result;
}

function choose(): File {
  const file = new File(["x"], "train.py");
  fireEvent.change(screen.getByLabelText("Code file"), { target: { files: [file] } });
  return file;
}

test("chosen code is uploaded, listed and named in the spec, and its command is proposed", async () => {
  prepared("train.py", ...Array.from({ length: 9 }, (_, index) => `lib/${index}.py`));
  const { yaml } = await open(`gpus: 1\ncommand: |\n  ${EXAMPLE_COMMAND.trimEnd().replace("\n", "\n  ")}\n`);
  const file = choose();
  await waitFor(() => expect(yaml.value).toContain(`code:\n  upload: ${DIGEST}`));
  expect(preparing.openGiven).toHaveBeenCalledWith(
    { kind: "file", file },
    expect.anything(),
    expect.anything(),
  );
  expect(yaml.value).toContain("command: python3 train.py");
  const listed = within(screen.getByRole("list", { name: "Files of the code" })).getAllByRole("listitem");
  expect(listed.map((item) => item.textContent).slice(0, 2)).toEqual(["train.py2 KiB", "lib/0.py2 KiB"]);
  expect(listed.at(-1)?.textContent).toBe("and 2 more");
  expect(screen.getByText("10 files, 20 KiB; 6 B packed; 2 left out by the ignore rules")).toBeDefined();
});

test("a command that the user wrote is kept", async () => {
  prepared("train.py");
  const { yaml } = await open("command: torchrun train.py\n");
  choose();
  await waitFor(() => expect(yaml.value).toContain(DIGEST));
  expect(yaml.value).toContain("command: torchrun train.py");
});

test("code that the server has is not sent again", async () => {
  prepared("train.py");
  vi.mocked(api.isUploaded).mockResolvedValue(true);
  const { yaml } = await open("command: run\n");
  choose();
  await waitFor(() => expect(yaml.value).toContain(DIGEST));
  expect(api.upload).not.toHaveBeenCalled();
});

test("where all lies in one folder the page says so, and a click uses that folder's contents", async () => {
  prepared("train/train.py");
  await open("command: run\n");
  choose();
  const remedy = await screen.findByRole("button", { name: "Use the contents of train/" });
  const { mock } = vi.mocked(preparing.prepare);
  prepared("train.py");
  fireEvent.click(remedy);
  await waitFor(() => expect(screen.queryByText(/Everything lies in/)).toBeNull());
  expect(mock.calls.at(-1)?.[1]).toBe("train/");
});

test("while code is packed nothing can be submitted, the browser asks before it leaves, and a cancel ends it", async () => {
  prepared("train.py");
  let signal: AbortSignal | undefined;
  vi.mocked(preparing.prepare).mockImplementation((_source, _base, given) => {
    signal = given;
    return new Promise((_, reject) => given.addEventListener("abort", () => reject(given.reason as Error)));
  });
  const { yaml } = await open("command: run\n");
  choose();
  const waiting = await screen.findByRole("button", { name: "Waiting for the code" });
  expect(waiting.hasAttribute("disabled")).toBe(true);
  expect(window.dispatchEvent(new Event("beforeunload", { cancelable: true }))).toBe(false);
  fireEvent.click(screen.getByRole("button", { name: "Cancel" }));
  expect(await screen.findByRole("button", { name: "Submit job" })).toBeDefined();
  expect(signal?.aborted).toBe(true);
  expect(window.dispatchEvent(new Event("beforeunload", { cancelable: true }))).toBe(true);
  expect(api.upload).not.toHaveBeenCalled();
  expect(yaml.value).toBe("command: run\n");
  prepared("train.py");
  choose();
  await waitFor(() => expect(yaml.value).toContain(DIGEST));
});

test("a page that is left ends the packing and the upload", async () => {
  prepared("train.py");
  let signal: AbortSignal | undefined;
  vi.mocked(api.upload).mockImplementation((_file, _sha256, _csrf, _onProgress, given) => {
    signal = given;
    return new Promise(() => undefined);
  });
  const { leave } = await open("command: run\n");
  choose();
  await waitFor(() => expect(signal?.aborted).toBe(false));
  leave();
  expect(signal?.aborted).toBe(true);
});

test("refused code is told with its reason, and the spec stays as it was", async () => {
  prepared("train.py");
  vi.mocked(preparing.openGiven).mockRejectedValue(new Error("code.zip holds no file to run."));
  const { yaml } = await open("command: run\n");
  choose();
  expect((await screen.findByRole("alert")).textContent).toBe("code.zip holds no file to run.");
  expect(yaml.value).toBe("command: run\n");
});

test.each([
  ["no node could run", { feasible: false }],
  ["is more than the quota", { fits_quota: false }],
])("a job that %s may be submitted anyway where the tenant waits for hardware", async (_why, verdict) => {
  vi.mocked(api.dryRun).mockResolvedValue({ ...FITS, starts_now: false, ...verdict });
  await open("command: run\n");
  const button = await screen.findByRole<HTMLButtonElement>("button", { name: "Submit anyway" });
  expect(button.disabled).toBe(false);
});

test("a job that could never run is refused with the reason where the tenant does not wait", async () => {
  const reason = "pool main could never run this job";
  vi.mocked(api.dryRun).mockRejectedValue(
    problemFrom(422, "Unprocessable", {
      title: "Some fields are wrong",
      errors: [{ field: "gpus", message: reason }],
    }),
  );
  await open("command: run\n");
  expect((await screen.findAllByText(reason, { exact: false })).length).toBeGreaterThan(0);
  expect(screen.getByRole<HTMLButtonElement>("button", { name: "Submit job" }).disabled).toBe(true);
});

const SWEEP_TEXT = "command: run\ntime: 1h\nsweep:\n  metric: loss\n  params:\n    lr: [1, 2]\n";

test("a spec with the key sweep is checked as one member, submitted as a sweep and shown on its page", async () => {
  vi.mocked(api.submitSweep).mockResolvedValue({ ...makeSweep(), notes: [], warnings: [] });
  await open(SWEEP_TEXT);
  await screen.findByText("Dry run of one member");
  const sweep = { metric: "loss", params: { lr: [1, 2] } };
  await waitFor(() =>
    expect(vi.mocked(api.dryRun).mock.lastCall?.[0]).toEqual({ command: "run", time: "1h", sweep }),
  );
  fireEvent.click(await screen.findByRole("button", { name: "Submit sweep" }));
  await waitFor(() =>
    expect(navigate).toHaveBeenCalledWith({ to: "/sweeps/$sweepId", params: { sweepId: "3" } }),
  );
  expect(vi.mocked(api.submitSweep).mock.lastCall?.[0]).toEqual({ command: "run", time: "1h", sweep });
  expect(api.submitJob).not.toHaveBeenCalled();
});

test("a clone of a sweep sends what was changed, and what is wrong in it is told at its field", async () => {
  vi.mocked(api.cloneSweep).mockRejectedValue(
    problemFrom(422, "", { detail: "wrong", errors: [{ field: "sweep.members", message: "at most 1,000" }] }),
  );
  const { yaml } = await open(SWEEP_TEXT, 3);
  type(yaml, SWEEP_TEXT.replace("time: 1h\n", "").replace("metric: loss", "metric: loss\n  members: 2000"));
  fireEvent.click(await screen.findByRole("button", { name: "Submit sweep" }));
  // At its field and in the list of what is wrong.
  expect(await screen.findAllByText("at most 1,000")).toHaveLength(2);
  expect(api.cloneSweep).toHaveBeenCalledWith(3, { time: null, sweep: { members: 2000 } });
});

test("a job becomes a sweep in the form, whose method decides which keys it has", async () => {
  const { yaml } = await open("command: run\n");
  fireEvent.click(screen.getByRole("button", { name: "Make it a sweep" }));
  expect(yaml.value).toBe("command: run\nsweep:\n  method: random\n  members: 16\n  parallel: 8\n");
  type(screen.getByRole("textbox", { name: "Metric" }), "val_loss");
  expect(yaml.value).toContain("metric: val_loss");
  fireEvent.click(screen.getByRole("combobox", { name: "Method" }));
  fireEvent.click(await screen.findByRole("option", { name: "ASHA" }));
  expect(yaml.value).toContain("rungs: { first: 1, last: 27, keep: 3 }");
  fireEvent.click(screen.getByRole("combobox", { name: "Method" }));
  fireEvent.click(await screen.findByRole("option", { name: "Grid: each combination" }));
  expect(yaml.value).not.toMatch(/rungs|members/);
  fireEvent.click(screen.getByRole("button", { name: "Make it one job" }));
  expect(yaml.value).toBe("command: run\n");
});

test("the parameters of a sweep are lines of the form: a list, or a range", async () => {
  const { yaml } = await open("command: run\nsweep:\n  method: random\n");
  type(screen.getByRole("textbox", { name: "Name of parameter 1" }), "batch");
  type(screen.getByRole("textbox", { name: "Values of parameter 1" }), "32, 64,adam, true");
  fireEvent.click(screen.getByRole("button", { name: "Add a parameter" }));
  type(screen.getByRole("textbox", { name: "Name of parameter 2" }), "lr");
  fireEvent.click(screen.getByRole("combobox", { name: "Kind of parameter 2" }));
  fireEvent.click(await screen.findByRole("option", { name: "Range, logarithmic" }));
  type(screen.getByRole("textbox", { name: "Start of parameter 2" }), "1e-5");
  type(screen.getByRole("textbox", { name: "End of parameter 2" }), "0.1");
  expect(yaml.value).toContain(
    "  params:\n    batch: [ 32, 64, adam, true ]\n    lr: { log: [ 0.00001, 0.1 ] }\n",
  );
  fireEvent.click(screen.getByRole("button", { name: "Remove parameter 1" }));
  expect(yaml.value).not.toContain("batch");
  type(yaml, "command: run\nsweep:\n  params:\n    depth: { int: [2, 8] }\n");
  expect(screen.getByRole<HTMLInputElement>("textbox", { name: "End of parameter 1" }).value).toBe("8");
});
