import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { fireEvent, render, screen, waitFor } from "@testing-library/react";
import { beforeEach, expect, test, vi } from "vitest";

import * as api from "../../api/client";
import { problemFrom } from "../../api/problem";
import { meQuery } from "../../api/queries";
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

const FITS = {
  valid: true,
  spec: {} as never,
  gpus_total: 1,
  feasible: true,
  fits_quota: true,
  starts_now: true,
  hold: null,
  position: null,
  screening: { tried: false, why: "it is no larger than a trial", starts_now: null, hold: null },
};

beforeEach(() => {
  vi.mocked(api.dryRun).mockResolvedValue(FITS);
  vi.mocked(api.listVcs).mockResolvedValue({ results: [], next: null });
  vi.mocked(api.listPools).mockResolvedValue({ results: [], next: null });
  vi.mocked(api.submitJob).mockReset();
  navigate.mockReset();
});

async function open(initial: string) {
  const client = new QueryClient({ defaultOptions: { queries: { retry: false, staleTime: Infinity } } });
  client.setQueryData(meQuery.queryKey, {
    username: "ada",
    email: "",
    is_operator: false,
    tenants: [],
    vcs: ["vision"],
    default_vc: "vision",
  });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={client}>
        <Workbench initial={initial} schema={{}} side="both" />
      </QueryClientProvider>
    </MantineProvider>,
  );
  const yaml = await screen.findByRole<HTMLTextAreaElement>("textbox", { name: "Job spec in YAML" });
  return { yaml, name: screen.getByRole<HTMLInputElement>("textbox", { name: "Name" }) };
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
  expect(screen.getByRole<HTMLButtonElement>("button", { name: "Submit job" }).disabled).toBe(true);
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

test("of a job that is tried first it says whether the trial could start, and else why not", async () => {
  const tried = { tried: true, why: "on 2 GPUs of pool small", starts_now: true, hold: null };
  const waits = {
    reason: "quota" as const,
    detail: "its trials hold 2 GPUs",
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
  expect(screen.getByText("its trials hold 2 GPUs")).toBeDefined();
});
