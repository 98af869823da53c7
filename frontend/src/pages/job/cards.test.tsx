import { MantineProvider } from "@mantine/core";
import { render, screen } from "@testing-library/react";
import { expect, it } from "vitest";

import { causeInFull, causeOf } from "../../components/cause";
import { AT, makeAttempt, makeJob } from "../../testing/makers";
import { FailureCard } from "./FailureCard";
import { FinishCard } from "./FinishCard";
import { IdleCard } from "./IdleCard";
import { KeptCard } from "./KeptCard";
import { NodeFacts } from "./NodeFacts";
import { ShellFact } from "./ShellFact";

const UNKNOWN = {
  class: "exit_nonzero",
  category: "user",
  retry: null,
  line: null,
  hint: null,
  title: "Exit code 3",
  retried: null,
  last_words: "Segment 7 is not aligned",
} as const;

it.each([
  ["runs", {}, "running", true],
  ["starts", {}, "starting", false],
  ["is being stopped", { desired: "stop" }, "running", false],
  ["is in a pool without shells", { shells: false }, "running", false],
] as const)("a job that %s has the command of a shell, or none", (_name, changes, state, shown) => {
  const job = { ...makeJob(), shells: true, ...changes };
  render(
    <MantineProvider env="test">
      <ShellFact job={job} attempt={makeAttempt({ state })} />
    </MantineProvider>,
  );
  expect(screen.queryByText("muster shell 7") !== null).toBe(shown);
});

it("shows the last lines of an unknown failure, and that they may not be the cause", () => {
  render(
    <FailureCard
      job={makeJob({ state: "failed", reason: "exit_nonzero", exit_code: 3, failure: UNKNOWN })}
    />,
  );
  expect(screen.getByText("Segment 7 is not aligned")).toBeTruthy();
  expect(screen.getByText(/only the last thing that it printed/)).toBeTruthy();
});

it("names the class of a failure, and which rule had it tried again", () => {
  const retried = "Attempt 1 was tried again, because jobs failed in a row on its node.";
  const known = {
    ...UNKNOWN,
    class: "gpu_out_of_memory",
    title: "GPU out of memory",
    retry: "no",
    retried,
  } as const;
  const job = makeJob({ state: "failed", reason: "exit_nonzero", exit_code: 1, failure: known });
  render(<FailureCard job={job} />);
  expect(screen.getByRole("heading", { name: /^GPU out of memory, exit code 1/ })).toBeTruthy();
  expect(screen.getByText(retried)).toBeTruthy();
  expect(causeOf(job)).toBe("GPU out of memory");
});

it("says nothing of last words where a line tells the cause", () => {
  const known = { ...UNKNOWN, class: "out_of_memory", line: "CUDA out of memory", last_words: null };
  render(<FailureCard job={makeJob({ state: "failed", reason: "exit_nonzero", failure: known })} />);
  expect(screen.getByText("CUDA out of memory")).toBeTruthy();
  expect(screen.queryByText(/last thing/)).toBeNull();
});

it("says since when GPUs stand idle, and when the job is stopped", () => {
  render(<IdleCard idle={{ since: AT(0), stop_at: AT(1800) }} />);
  expect(screen.getByRole("region", { name: "Its GPUs are idle" }).textContent).toMatch(/is stopped/);
});

it("does not threaten a job that is only warned", () => {
  render(<IdleCard idle={{ since: AT(0), stop_at: null }} />);
  expect(screen.getByRole("region", { name: "Its GPUs are idle" }).textContent).not.toMatch(/is stopped/);
});

it("says how a job failed that is kept, and the command to get into the rank that failed", () => {
  const allocation = {
    id: 1,
    node: "n1",
    gpus: [],
    memory_limited: true,
    host_network: null,
    log_size: 0,
    log_complete: false,
  };
  const attempt = makeAttempt({
    allocations: [
      { ...allocation, rank: 0, observed: "running", exit_code: null },
      { ...allocation, rank: 1, observed: "kept", exit_code: 3 },
    ],
  });
  const kept = { until: AT(1800), reason: "exit_nonzero", exit_code: 3 } as const;
  render(
    <MantineProvider>
      <KeptCard jobId={1042} kept={kept} attempts={[attempt]} />
    </MantineProvider>,
  );
  expect(screen.getByText("muster shell 1042 --rank 1")).toBeTruthy();
  expect(screen.getByText(/exit code 3/)).toBeTruthy();
  const running = makeJob({ state: "active", started_at: AT(0), kept });
  expect(causeOf(running)).toBe("Failed, kept");
});

it("names the nodes that do not enforce the memory limit", () => {
  const rank = { id: 1, gpus: [], exit_code: null, log_size: 0, log_complete: false, host_network: null };
  const attempt = makeAttempt({
    allocations: [
      { ...rank, rank: 0, node: "gpu01", observed: "running", memory_limited: false },
      { ...rank, rank: 1, node: "gpu02", observed: "running", memory_limited: true },
    ],
  });
  render(<NodeFacts attempt={attempt} />);
  expect(screen.getByText("not enforced on gpu01")).toBeTruthy();
  expect(screen.queryByText("Network")).toBeNull();
});

it("says once which setting gives a gang the host's network", () => {
  const reason = "the gang network of pool main is host";
  const rank = { id: 1, gpus: [], exit_code: null, log_size: 0, log_complete: false, memory_limited: true };
  const attempt = makeAttempt({
    allocations: [
      { ...rank, rank: 0, node: "gpu01", observed: "running", host_network: reason },
      { ...rank, rank: 1, node: "gpu02", observed: "running", host_network: reason },
    ],
  });
  render(<NodeFacts attempt={attempt} />);
  expect(screen.getByText(`the host's: ${reason}`)).toBeTruthy();
  expect(screen.queryByText("Memory limit")).toBeNull();
});

it("marks an idle job in the list", () => {
  const running = makeJob({ state: "active", started_at: AT(0) });
  expect(causeOf(running)).toBeNull();
  expect(causeOf({ ...running, idle: { since: AT(0), stop_at: null } })).toBe("Idle GPUs");
});

it("says on which GPU type a waiting job finishes first, and that jobs ahead are not counted", () => {
  const detail =
    "On V100 it would start now and finish in about 9 h; on A100 it would start in 4 h and finish in about 11 h.";
  const { rerender } = render(
    <FinishCard finish={{ summary: "V100 now finishes before A100 in 4 h", detail, types: [] }} />,
  );
  const card = screen.getByRole("region", { name: "V100 now finishes before A100 in 4 h" });
  expect(card.textContent).toContain(detail);
  expect(card.textContent).toContain("jobs ahead of it in the queue are not counted");
  rerender(<FinishCard finish={{ summary: "", detail, types: [] }} />);
  expect(screen.getByRole("region", { name: "When it would start on each GPU type" })).toBeTruthy();
});

it("says of a member that its sweep stopped it, and why, which its state does not say", () => {
  const stopped = makeJob({ state: "cancelled", reason: "stopped_early", reason_detail: "3 members failed" });
  expect(causeOf(stopped)).toBe("Stopped by its sweep");
  expect(causeInFull(stopped)).toBe("Stopped by its sweep: 3 members failed");
  expect(causeOf(makeJob({ state: "cancelled", reason: "cancelled_by_user" }))).toBeNull();
});
