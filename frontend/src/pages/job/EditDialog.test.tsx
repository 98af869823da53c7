import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test, vi } from "vitest";

import * as api from "../../api/client";
import { Problem } from "../../api/problem";
import type { JobWithSpec } from "../../api/types";
import { makeJob } from "../../testing/makers";
import EditDialog from "./EditDialog";

vi.mock("../../api/client");

const job = {
  ...makeJob({ tags: { project: "seg" } }),
  spec: { command: "true", time: "4h" },
} as JobWithSpec;

function show(role: string) {
  const client = new QueryClient();
  const me = {
    username: "ada",
    is_operator: false,
    tenants: [{ name: "acme", role }],
    vcs: [],
    default_vc: null,
  };
  client.setQueryData(["me"], me);
  const onClose = vi.fn();
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={client}>
        <EditDialog job={job} opened onClose={onClose} onSaved={() => Promise.resolve()} />
      </QueryClientProvider>
    </MantineProvider>,
  );
  return onClose;
}

test("only what was changed is sent", async () => {
  const onClose = show("member");
  vi.mocked(api.editJob).mockResolvedValue(job);
  await userEvent.selectOptions(screen.getByLabelText("Priority"), "low");
  await userEvent.clear(screen.getByLabelText("Time limit"));
  await userEvent.type(screen.getByLabelText("Tags"), "\nstage=2");
  await userEvent.click(screen.getByRole("button", { name: "Save" }));
  const tags = { project: "seg", stage: "2" };
  expect(api.editJob).toHaveBeenCalledWith(7, { priority: "low", time: null, tags });
  expect(onClose).toHaveBeenCalled();
});

test("a member cannot choose a priority of managers", () => {
  show("member");
  expect(screen.getByRole<HTMLOptionElement>("option", { name: "High" }).disabled).toBe(true);
});

test("a refusal stands at its field", async () => {
  const onClose = show("manager");
  expect(screen.getByRole<HTMLOptionElement>("option", { name: "High" }).disabled).toBe(false);
  const refused = new Problem(422, "Invalid", "", "", [{ field: "time", message: "it is no duration" }]);
  vi.mocked(api.editJob).mockRejectedValue(refused);
  await userEvent.type(screen.getByLabelText("Time limit"), "x");
  await userEvent.click(screen.getByRole("button", { name: "Save" }));
  expect(await screen.findByText("it is no duration")).toBeTruthy();
  expect(onClose).not.toHaveBeenCalled();
});
