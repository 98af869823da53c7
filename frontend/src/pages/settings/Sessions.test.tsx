import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, it, vi } from "vitest";

import * as api from "../../api/account";
import type { Session } from "../../api/types";
import * as app from "../../app/signOut";
import { AT } from "../../testing/makers";
import { Sessions } from "./Sessions";

const HERE: Session = {
  id: 5,
  created_at: AT(0),
  last_used_at: AT(60),
  address: "198.51.100.7",
  user_agent: "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
  current: true,
};
const PHONE: Session = {
  ...HERE,
  id: 6,
  address: "2001:db8::1",
  user_agent: "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) Version/18.5 Safari/604.1",
  current: false,
};

const signOut = vi.fn(() => Promise.resolve());

function show(sessions: Session[]) {
  vi.spyOn(app, "useSignOut").mockReturnValue(signOut);
  vi.spyOn(api, "listSessions").mockResolvedValue({ results: sessions, next: null });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient({ defaultOptions: { queries: { retry: false } } })}>
        <Sessions />
      </QueryClientProvider>
    </MantineProvider>,
  );
}

const button = (name: string) => screen.findByRole("button", { name });

afterEach(() => vi.restoreAllMocks());

it("shows each browser with its address, and marks this one", async () => {
  show([HERE, PHONE]);
  const rows = await screen.findAllByRole("listitem");
  expect(rows.map((row) => within(row).queryByText("this browser") !== null)).toEqual([true, false]);
  expect(rows[0]?.textContent).toContain("Firefox on Linux");
  expect(rows[1]?.textContent).toContain("Safari on iOS");
  expect(rows[1]?.textContent).toContain("2001:db8::1");
});

it("ends another session and asks for the list again", async () => {
  const ended = vi.spyOn(api, "endSession").mockResolvedValue(undefined);
  show([HERE, PHONE]);
  const asked = await button("Sign out Safari on iOS at 2001:db8::1");
  vi.mocked(api.listSessions).mockResolvedValue({ results: [HERE], next: null });
  await userEvent.click(asked);
  expect(ended).toHaveBeenCalledWith(PHONE.id);
  await waitFor(() => expect(screen.queryByText("Safari on iOS")).toBeNull());
  expect(signOut).not.toHaveBeenCalled();
});

it("signs this browser out as the user menu does", async () => {
  const ended = vi.spyOn(api, "endSession").mockResolvedValue(undefined);
  show([HERE]);
  await userEvent.click(await button("Sign out Firefox on Linux at 198.51.100.7"));
  expect(signOut).toHaveBeenCalledOnce();
  expect(ended).not.toHaveBeenCalled();
});

it("ends all others together, and offers that only while there are others", async () => {
  const ended = vi.spyOn(api, "endOtherSessions").mockResolvedValue(undefined);
  show([HERE, PHONE]);
  const everywhere = await button("Sign out everywhere else");
  vi.mocked(api.listSessions).mockResolvedValue({ results: [HERE], next: null });
  await userEvent.click(everywhere);
  expect(ended).toHaveBeenCalledOnce();
  await waitFor(() => expect(screen.queryByRole("button", { name: "Sign out everywhere else" })).toBeNull());
});
