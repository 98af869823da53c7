import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, it, vi } from "vitest";

import * as api from "../../api/account";
import { notificationsQuery } from "../../api/accountQueries";
import type { Notifications as Chosen } from "../../api/types";
import { Notifications } from "./Notifications";

const CHOSEN: Chosen = {
  mail: ["failed"],
  webhook: ["started", "failed"],
  weekly_digest: false,
  address: "olivia@example.org",
  no_mail_because: null,
};

function show(chosen: Chosen) {
  const client = new QueryClient({ defaultOptions: { queries: { retry: false, staleTime: Infinity } } });
  client.setQueryData(notificationsQuery.queryKey, chosen);
  render(
    <MantineProvider>
      <QueryClientProvider client={client}>
        <Notifications />
      </QueryClientProvider>
    </MantineProvider>,
  );
}

const box = (name: string) => screen.getByRole<HTMLInputElement>("checkbox", { name });

afterEach(() => vi.restoreAllMocks());

it("shows what is told by which way", () => {
  show(CHOSEN);
  expect(box("A job failed: E-mail").checked).toBe(true);
  expect(box("A job has started: E-mail").checked).toBe(false);
  expect(box("A job has started: Webhooks").checked).toBe(true);
  expect(screen.getByText(/olivia@example.org/)).toBeTruthy();
});

it("says why no mail comes", () => {
  show({ ...CHOSEN, no_mail_because: "E-mail is not set up here. Ask an operator." });
  expect(screen.getByText(/E-mail is not set up here/)).toBeTruthy();
});

it("sends the changed list and shows what the server answers", async () => {
  const answer: Chosen = { ...CHOSEN, mail: ["ended", "failed"] };
  const sent = vi.spyOn(api, "changeNotifications").mockResolvedValue(answer);
  show(CHOSEN);
  await userEvent.click(box("A job ended (any result): E-mail"));
  expect(sent).toHaveBeenCalledWith({ mail: ["failed", "ended"] });
  await waitFor(() => expect(box("A job ended (any result): E-mail").checked).toBe(true));
});

it("leaves everything as it was if the server refuses", async () => {
  vi.spyOn(api, "changeNotifications").mockRejectedValue(new Error("no"));
  show(CHOSEN);
  await userEvent.click(box("A digest of the week by e-mail, on Mondays"));
  await waitFor(() => expect(box("A job failed: E-mail").disabled).toBe(false));
  expect(box("A digest of the week by e-mail, on Mondays").checked).toBe(false);
});
