import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, it, vi } from "vitest";

import * as api from "../../api/account";
import { Problem } from "../../api/problem";
import type { Webhook } from "../../api/types";
import { AT } from "../../testing/makers";
import { Webhooks } from "./Webhooks";

const URL = "https://hooks.example.org/muster";

function makeWebhook(changes: Partial<Webhook> = {}): Webhook {
  return {
    id: 3,
    url: URL,
    state: "working",
    reason: null,
    last_result: "200",
    last_try_at: AT(0),
    last_success_at: AT(0),
    failing_since: null,
    created_at: AT(0),
    ...changes,
  };
}

function show(...webhooks: Webhook[]) {
  const listed = vi.spyOn(api, "listWebhooks").mockResolvedValue({ results: webhooks, next: null });
  render(
    <MantineProvider>
      <QueryClientProvider client={new QueryClient({ defaultOptions: { queries: { retry: false } } })}>
        <Webhooks />
      </QueryClientProvider>
    </MantineProvider>,
  );
  return listed;
}

const button = (name: string) => screen.findByRole("button", { name });

async function enter(url: string) {
  await userEvent.click(await screen.findByLabelText("URL"));
  await userEvent.paste(url);
}

afterEach(() => vi.restoreAllMocks());

it("shows each webhook with its state and what became of the last try", async () => {
  show(
    makeWebhook(),
    makeWebhook({
      id: 4,
      url: `${URL}/2`,
      state: "disabled",
      reason: "it failed for a day",
      last_result: "500",
    }),
  );
  const rows = await screen.findAllByRole("listitem");
  expect(rows).toHaveLength(2);
  expect(rows[0]?.textContent).toMatch(/Working200last try/);
  expect(rows[1]?.textContent).toMatch(/Disabledit failed for a day/);
});

it("shows the secret of a new webhook once", async () => {
  show();
  const made = vi.spyOn(api, "createWebhook").mockResolvedValue({ ...makeWebhook(), secret: "whsec_abc" });
  await userEvent.click(await button("New webhook"));
  await enter(URL);
  await userEvent.click(await button("Add webhook"));
  expect(made).toHaveBeenCalledWith(URL);
  expect((await screen.findByLabelText("Secret")).textContent).toBe("whsec_abc");
  await userEvent.click(await button("Done"));
  await waitFor(() => expect(screen.queryByText("whsec_abc")).toBeNull());
});

it("says why an address is refused", async () => {
  show();
  vi.spyOn(api, "createWebhook").mockRejectedValue(
    new Problem(422, "Invalid", "url: 10.0.0.1 is private", "invalid", []),
  );
  await userEvent.click(await button("New webhook"));
  await enter("http://10.0.0.1/");
  await userEvent.click(await button("Add webhook"));
  expect(await screen.findByText(/10.0.0.1 is private/)).toBeTruthy();
});

it("waits for the result of a ping", async () => {
  const listed = show(makeWebhook());
  const sent = vi.spyOn(api, "testWebhook").mockResolvedValue(makeWebhook());
  await userEvent.click(await button(`Test ${URL}`));
  expect(sent).toHaveBeenCalledWith(3);
  await waitFor(() =>
    expect(screen.getByRole("button", { name: `Test ${URL}` })).toHaveProperty("disabled", true),
  );
  const after = makeWebhook({ state: "failing", last_try_at: AT(60), last_result: "500" });
  listed.mockResolvedValue({ results: [after], next: null });
  await waitFor(() => expect(screen.getByRole("listitem").textContent).toMatch(/Failing500/), {
    timeout: 4000,
  });
  expect(screen.getByRole("button", { name: `Test ${URL}` })).toHaveProperty("disabled", false);
});

it("removes a webhook once that is confirmed", async () => {
  const listed = show(makeWebhook());
  const removed = vi.spyOn(api, "removeWebhook").mockResolvedValue(undefined);
  await userEvent.click(await button(`Remove ${URL}`));
  const dialog = await screen.findByRole("dialog");
  expect(removed).not.toHaveBeenCalled();
  listed.mockResolvedValue({ results: [], next: null });
  await userEvent.click(within(dialog).getByRole("button", { name: "Remove webhook" }));
  expect(removed).toHaveBeenCalledWith(3);
  expect(await screen.findByText("No webhooks")).toBeTruthy();
});
