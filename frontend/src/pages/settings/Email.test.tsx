import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";

import * as api from "../../api/account";
import { meQuery } from "../../api/queries";
import type { Me } from "../../api/types";
import { Email } from "./Email";

const ADA: Me = {
  username: "ada",
  email: "old@example.org",
  is_operator: false,
  tenants: [],
  vcs: [],
  default_vc: null,
};

it("sends the new address with the password, and shows what the platform stored", async () => {
  const client = new QueryClient();
  client.setQueryData(meQuery.queryKey, ADA);
  const changed = vi.spyOn(api, "changeEmail").mockResolvedValue({ ...ADA, email: "new@example.org" });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={client}>
        <Email />
      </QueryClientProvider>
    </MantineProvider>,
  );
  await userEvent.clear(screen.getByLabelText("Address"));
  await userEvent.type(screen.getByLabelText("Address"), "new@example.org");
  await userEvent.type(screen.getByLabelText("Your password"), "secret");
  await userEvent.click(screen.getByRole("button", { name: "Change address" }));
  expect(changed).toHaveBeenCalledWith("new@example.org", "secret");
  await waitFor(() => expect(client.getQueryData<Me>(meQuery.queryKey)?.email).toBe("new@example.org"));
});
