import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen } from "@testing-library/react";
import { afterEach, expect, it, vi } from "vitest";

import * as http from "../../api/http";
import { CommandLine } from "./CommandLine";

const WHEEL = "muster_cluster-0.1.0-py3-none-any.whl";

afterEach(() => vi.restoreAllMocks());

it("names the served wheel by its address and its SHA-256", async () => {
  const sums = `${"a".repeat(64)}  muster-agent.pyz\n${"b".repeat(64)}  ${WHEEL}\n`;
  vi.spyOn(http, "send").mockResolvedValue(new Response(sums));
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient()}>
        <CommandLine />
      </QueryClientProvider>
    </MantineProvider>,
  );
  const link = await screen.findByRole("link", { name: "Download the wheel" });
  expect(link.getAttribute("href")).toBe(`/downloads/${WHEEL}`);
  expect(screen.getByText("b".repeat(64))).toBeTruthy();
  expect(screen.getByText(/pip install http/).textContent).toContain(`/downloads/${WHEEL}`);
});
