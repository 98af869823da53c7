import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, beforeEach, expect, it, vi } from "vitest";

import * as api from "../../api/account";
import { Problem } from "../../api/problem";
import { Password } from "./Password";

beforeEach(() => {
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient()}>
        <Password />
      </QueryClientProvider>
    </MantineProvider>,
  );
});
afterEach(() => vi.restoreAllMocks());

const field = (name: string) => screen.getByLabelText<HTMLInputElement>(name);

async function change() {
  await userEvent.type(field("Current password"), "old one");
  await userEvent.type(field("New password"), "new one");
  await userEvent.click(screen.getByRole("button", { name: "Change password" }));
}

it("sends both passwords and forgets them", async () => {
  const changed = vi.spyOn(api, "changePassword").mockResolvedValue(undefined);
  await change();
  expect(changed).toHaveBeenCalledWith("old one", "new one");
  await waitFor(() => expect(field("Current password").value + field("New password").value).toBe(""));
});

it("says at the field what is wrong with it", async () => {
  const wrong = [{ field: "current", message: "it is not your current password" }];
  vi.spyOn(api, "changePassword").mockRejectedValue(new Problem(422, "Invalid", "wrong", "invalid", wrong));
  await change();
  const told = await screen.findByText("it is not your current password");
  expect(told.closest(".mantine-PasswordInput-root")?.contains(field("Current password"))).toBe(true);
});
