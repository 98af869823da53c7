import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen, within } from "@testing-library/react";
import { expect, it, vi } from "vitest";

import * as api from "../../api/client";
import { AT, makeJob } from "../../testing/makers";
import { TimelineCard } from "./TimelineCard";

vi.mock("../../api/client");

const NO_WAIT = { not_eligible_s: 0, fair_share_s: 0, capacity_s: 0, apart_s: 0, order_s: 0, other_s: 0 };

it("says for what the newest attempt waited, the longest delay first", async () => {
  const waits = [
    { ...NO_WAIT, attempt: 1, begins: AT(0), ends: AT(60), fragmentation_s: 0, fair_share_s: 60 },
    {
      ...NO_WAIT,
      attempt: 2,
      begins: AT(90),
      ends: AT(690),
      fragmentation_s: 590,
      order_s: 90,
      capacity_s: 500,
    },
  ];
  vi.mocked(api.getJobDelays).mockResolvedValue({ delay: null, waits });
  render(
    <QueryClientProvider client={new QueryClient()}>
      <TimelineCard job={makeJob()} attempts={[]} />
    </QueryClientProvider>,
  );
  const list = await screen.findByLabelText("It waited for");
  expect(
    within(list)
      .getAllByRole("term")
      .map((term) => term.textContent),
  ).toEqual(["Capacity", "Order"]);
});
