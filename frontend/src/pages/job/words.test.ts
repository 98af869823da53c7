import { expect, test } from "vitest";

import { AT } from "../../testing/makers";
import { cliCommand, curlCommand } from "./commands";
import { eventFacts, eventWords } from "./events";
import { quotaOf, readings } from "./evidence";

test("the commands carry the spec as it is", () => {
  expect(cliCommand("gpus: 1\n")).toBe("muster submit - <<'EOF'\ngpus: 1\nEOF\n");
  expect(curlCommand("gpus: 1\n", "https://m.example")).toContain("https://m.example/api/v1/jobs");
});

test("a spec that contains the end word gets another one", () => {
  const command = cliCommand("command: |\n  x\nEOF\n");
  expect(command.startsWith("muster submit - <<'EOF_'\n")).toBe(true);
  expect(command.endsWith("\nEOF_\n")).toBe(true);
});

test("evidence of a quota becomes a meter, and the rest is listed", () => {
  const evidence = { vc: "vision", used: 6, quota: 8, needed: 4, memory_mib_per_node: 2048, gpu_type: "" };
  expect(quotaOf(evidence)).toEqual({ used: 6, quota: 8 });
  expect(readings(evidence, 0)).toEqual([
    { name: "Virtual cluster", value: "vision" },
    { name: "Needed", value: "4" },
    { name: "Memory per node", value: "2 GiB" },
  ]);
});

test("evidence without a quota has no meter", () => {
  expect(quotaOf({ used: 3 })).toBeNull();
  expect(readings({ used: 3 }, 0)).toEqual([{ name: "Used", value: "3" }]);
});

test("events read as sentences, and say nothing twice", () => {
  expect(eventWords("job.cancel_asked")).toBe("Cancellation asked for");
  expect(eventWords("job.something_new")).toBe("Job something new");
  const event = {
    id: 1,
    at: AT(0),
    kind: "job.failed",
    actor: "platform",
    data: { from: "active", state: "failed", reason: "exit_nonzero", attempt: 1, detail: "" },
  };
  expect(eventFacts(event)).toEqual([
    { name: "reason", value: "Exited with an error" },
    { name: "attempt", value: "1" },
  ]);
});
