import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test, vi } from "vitest";

import * as api from "../../api/client";
import type { JobWithSpec, OutputFile, OutputsSummary } from "../../api/types";
import { makeJob } from "../../testing/makers";
import { FilesTab } from "./FilesTab";

vi.mock("../../api/client", async (original) => ({
  ...(await original<typeof api>()),
  listFiles: vi.fn(),
}));

const FILE: OutputFile = {
  id: 5,
  attempt: 2,
  rank: 1,
  path: "ckpt/last.pt",
  size: 2048,
  sha256: "ab",
  state: "kept",
  at: "2026-03-01T12:00:00Z",
};
const SUMMARY: OutputsSummary = {
  patterns: ["ckpt/**"],
  kept_files: 1,
  kept_bytes: 2048,
  most_files: 1000,
  most_bytes: 2 ** 30,
  kept_until: null,
  pending: 0,
  lost: 0,
  unnamed: 0,
  cut_short: false,
};

function open(
  files: OutputFile[],
  summary: Partial<OutputsSummary> = {},
  state: JobWithSpec["state"] = "succeeded",
) {
  const page = { results: files, next: null, summary: { ...SUMMARY, ...summary } };
  vi.mocked(api.listFiles).mockResolvedValue(page);
  show(state);
}

function show(state: JobWithSpec["state"]) {
  const job = { ...makeJob({ state }), spec: {}, cloned_from: null } as unknown as JobWithSpec;
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient({ defaultOptions: { queries: { retry: false } } })}>
        <FilesTab job={job} />
      </QueryClientProvider>
    </MantineProvider>,
  );
}

test("a file that is kept is a download, and one that is not says why", async () => {
  open([FILE, { ...FILE, id: 6, path: "ckpt/<b>link", state: "not_a_file", size: 0, sha256: null }], {
    unnamed: 3,
  });
  const link = await screen.findByRole("link", { name: "ckpt/last.pt" });
  expect(link.getAttribute("href")).toBe("/api/v1/jobs/7/files/5");
  expect(link.hasAttribute("download")).toBe(true);
  const kept = screen.getByRole("row", { name: /last\.pt/ });
  expect(within(kept).getByText("2 KiB")).toBeDefined();
  const left = screen.getByRole("row", { name: /<b>link/ });
  expect(screen.getByText("Why not kept")).toBeDefined();
  expect(within(left).getByText("not a regular file")).toBeDefined();
  expect(within(left).queryByRole("link")).toBeNull();
  expect(screen.getByText("3 more files not kept.")).toBeDefined();
});

test("a list of several pages goes on when it is asked to", async () => {
  vi.mocked(api.listFiles).mockImplementation((_id, cursor) =>
    Promise.resolve({
      results: [cursor === undefined ? FILE : { ...FILE, id: 6, path: "later" }],
      next: cursor === undefined ? "more" : null,
      summary: SUMMARY,
    }),
  );
  show("succeeded");
  await userEvent.click(await screen.findByRole("button", { name: "More files" }));
  expect(await screen.findByRole("link", { name: "later" })).toBeDefined();
  expect(screen.queryByText("Why not kept")).toBeNull();
});

test.each([
  ["nothing was asked for", { patterns: [] }, "succeeded", /names no outputs, so its working folder/],
  ["the job has not started", {}, "queued", /What it leaves of ckpt/],
  ["files are on their way", { pending: 2 }, "succeeded", /2 ranks are still to come/],
  ["it left nothing", {}, "failed", /It left nothing of ckpt/],
  ["its node was lost", { lost: 1 }, "failed", /1 node went away/],
] as const)("an empty tab says that %s", async (_name, summary, state, text) => {
  open([], { ...summary, patterns: "patterns" in summary ? [] : SUMMARY.patterns }, state);
  expect(await screen.findByText(text)).toBeDefined();
});
