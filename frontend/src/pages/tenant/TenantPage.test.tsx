import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { fireEvent, render, screen, waitFor } from "@testing-library/react";
import type { ReactNode } from "react";
import { beforeEach, expect, test, vi } from "vitest";

import { Problem } from "../../api/problem";
import * as api from "../../api/tree";
import { makeTenant, NO_CAP } from "../../testing/makers";
import { TenantPage } from "./TenantPage";

vi.mock("@tanstack/react-router", () => ({
  getRouteApi: () => ({ useParams: () => ({ name: "vision" }) }),
  Link: ({ children }: { children: ReactNode }) => <a href="#">{children}</a>,
}));
vi.mock("../../api/tree");

function show(tenant: ReturnType<typeof makeTenant>) {
  vi.mocked(api.listTenants).mockResolvedValue({ results: [tenant], next: null });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient({ defaultOptions: { queries: { retry: false } } })}>
        <TenantPage />
      </QueryClientProvider>
    </MantineProvider>,
  );
}

function second(elements: HTMLElement[]): HTMLElement {
  const found = elements[1];
  if (found === undefined) throw new Error("there is only one");
  return found;
}

beforeEach(() => {
  vi.resetAllMocks();
});

test("a manager adds a cap for one member, and it is saved as a whole list", async () => {
  const tenant = makeTenant({ caps: [{ ...NO_CAP, jobs: 20 }] });
  vi.mocked(api.changeTenant).mockResolvedValue(tenant);
  show(tenant);
  fireEvent.click(await screen.findByRole("button", { name: "Add a cap" }));
  fireEvent.change(second(screen.getAllByRole("combobox", { name: "For" })), {
    target: { value: "user:ada" },
  });
  fireEvent.change(second(screen.getAllByRole("textbox", { name: "GPUs at once" })), {
    target: { value: "4" },
  });
  await screen.findByText("This fits.");
  fireEvent.click(screen.getByRole("button", { name: "Save" }));
  const caps = [
    { ...NO_CAP, jobs: 20 },
    { ...NO_CAP, user: "ada", gpus: 4 },
  ];
  await waitFor(() => expect(api.changeTenant).toHaveBeenLastCalledWith(2, { version: 7, caps }));
});

test("a cap that the server refuses is told at its field while one types", async () => {
  const message = "you cannot raise your own cap";
  vi.mocked(api.changeTenant).mockRejectedValue(
    new Problem(422, "Invalid", message, "invalid", [{ field: "caps.0.gpus", message }]),
  );
  show(makeTenant({ caps: [{ ...NO_CAP, user: "mary", gpus: 2 }] }));
  fireEvent.change(await screen.findByRole("textbox", { name: "GPUs at once" }), { target: { value: "16" } });
  expect(await screen.findAllByText(message)).toHaveLength(2);
  expect(screen.getByRole<HTMLButtonElement>("button", { name: "Save" }).disabled).toBe(true);
});

test("a member reads the caps and cannot change them", async () => {
  show(makeTenant({ may: "read", caps: [{ ...NO_CAP, role: "member", time_s: 86_400 }] }));
  expect((await screen.findByRole("region", { name: "Caps" })).textContent).toContain(
    "Longest time of a job, h: 24",
  );
  expect(screen.queryByRole("button", { name: "Save" })).toBeNull();
});
