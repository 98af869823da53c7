import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import type { ReactNode } from "react";
import { expect, test, vi } from "vitest";

import { UserMenu } from "./UserMenu";

vi.mock("@tanstack/react-router", () => ({
  Link: ({ children }: { children: ReactNode }) => <a href="#top">{children}</a>,
}));
vi.mock("./me", () => ({
  useMe: () => ({ username: "ada", is_operator: false, tenants: [{ name: "bio" }] }),
}));
vi.mock("./signOut", () => ({ useSignOut: () => vi.fn() }));

const button = () => screen.getByRole("button", { name: /Account of/ });

test("the first press loads the menu and opens it, and its button gets the focus back", async () => {
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient()}>
        <UserMenu wide />
      </QueryClientProvider>
    </MantineProvider>,
  );
  expect(button().textContent).toContain("bio");
  const look = button().className;
  await userEvent.click(button());
  expect(await screen.findByRole("menuitem", { name: "Sign out" })).toBeTruthy();
  expect(button().className).toBe(look);
  await userEvent.keyboard("{Escape}");
  await waitFor(() => expect(document.activeElement).toBe(button()));
  expect(screen.queryByRole("menuitem")).toBeNull();
  await userEvent.keyboard("{Enter}");
  expect(await screen.findByRole("menuitem", { name: "Dark theme" })).toBeTruthy();
});
