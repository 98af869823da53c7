import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, beforeEach, expect, it, vi } from "vitest";

import * as api from "../../api/account";
import { Problem } from "../../api/problem";
import type { Token } from "../../api/types";
import { AT } from "../../testing/makers";
import { Tokens } from "./Tokens";

const TOKEN: Token = {
  id: 5,
  name: "laptop",
  prefix: "mst_ab",
  created_at: AT(0),
  expires_at: AT(3600),
  last_used_at: null,
  scopes: ["read", "submit"],
  survives_password_change: false,
};

beforeEach(() => {
  vi.spyOn(api, "listTokens").mockResolvedValue({ results: [], next: null });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient({ defaultOptions: { queries: { retry: false } } })}>
        <Tokens />
      </QueryClientProvider>
    </MantineProvider>,
  );
});
afterEach(() => vi.restoreAllMocks());

const button = (name: string) => screen.findByRole("button", { name });

async function create(name: string) {
  await userEvent.click(await button("New token"));
  await userEvent.type(await screen.findByLabelText("Name"), name);
  await userEvent.click(await button("Create token"));
}

it("shows a new token once, and asks anew for the next one", async () => {
  const made = vi.spyOn(api, "createToken").mockResolvedValue({ ...TOKEN, token: "mst_abc" });
  await create("laptop");
  expect(made).toHaveBeenCalledWith({
    name: "laptop",
    expires_in: "30d",
    scopes: ["read", "submit"],
    survives_password_change: false,
  });
  expect((await screen.findByLabelText("Token")).textContent).toBe("mst_abc");
  expect(screen.getByText("Your new token")).toBeTruthy();
  await userEvent.click(await button("Done"));
  await waitFor(() => expect(screen.queryByText("mst_abc")).toBeNull());
  await userEvent.click(await button("New token"));
  expect((await screen.findByLabelText<HTMLInputElement>("Name")).value).toBe("");
});

it("makes a token with the scopes that are chosen", async () => {
  const made = vi.spyOn(api, "createToken").mockResolvedValue({ ...TOKEN, token: "mst_abc" });
  await userEvent.click(await button("New token"));
  await userEvent.click(await screen.findByLabelText("Submit and act on your own jobs"));
  await userEvent.click(await screen.findByLabelText("Operate the cluster"));
  await userEvent.click(await screen.findByLabelText("Keep it when your password changes"));
  await userEvent.type(await screen.findByLabelText("Name"), "nightly");
  await userEvent.click(await button("Create token"));
  expect(made).toHaveBeenCalledWith(
    expect.objectContaining({ scopes: ["read", "admin"], survives_password_change: true }),
  );
});

it("changes whether a token stays when the password changes", async () => {
  const changed = vi.spyOn(api, "setTokenSurvival").mockResolvedValue(TOKEN);
  vi.spyOn(api, "createToken").mockResolvedValue({ ...TOKEN, token: "mst_abc" });
  vi.mocked(api.listTokens).mockResolvedValue({ results: [TOKEN], next: null });
  await create("laptop"); // the list is asked for again
  await userEvent.click(await button("Done"));
  const box = await screen.findByLabelText<HTMLInputElement>("Keep laptop when your password changes");
  expect(box.checked).toBe(false);
  const stays = { ...TOKEN, survives_password_change: true };
  vi.mocked(api.listTokens).mockResolvedValue({ results: [stays], next: null });
  await userEvent.click(box);
  expect(changed).toHaveBeenCalledWith(TOKEN.id, true);
  await waitFor(() => expect(box.checked).toBe(true));
});

it("says beside the name why it was refused, and forgets that with the dialog", async () => {
  vi.spyOn(api, "createToken").mockRejectedValue(
    new Problem(409, "Conflict", "too many tokens", "conflict", []),
  );
  await create("laptop");
  expect(await screen.findByText(/too many tokens/)).toBeTruthy();
  await userEvent.click(await button("Back"));
  await userEvent.click(await button("New token"));
  await screen.findByLabelText("Name");
  expect(screen.queryByText(/too many tokens/)).toBeNull();
});
