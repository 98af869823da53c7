import { render, screen } from "@testing-library/react";
import { expect, test } from "vitest";

import type { JobTraining } from "../../api/types";
import { checkpointWords, TrainingWords } from "./TrainingCard";

const NOTHING: JobTraining = { newest: [], advice: [], checkpoint: null, rules: [] };
const INTERVAL: NonNullable<JobTraining["checkpoint"]> = {
  daly_s: 4800,
  young_s: 4900,
  cost_s: 60,
  measured: "reported",
  measurements: 3,
  mtbf_s: 201_600,
  failures: 3,
  node_hours: 15_000.4,
  lost_share: 0.02,
};

test("where there is nothing to say nothing is shown", () => {
  render(<TrainingWords training={NOTHING} />);
  expect(screen.queryByRole("region")).toBeNull();
});

test("advice and the interval are said in words, with the figures that it comes from", () => {
  const nan = { kind: "nan" as const, text: "the last 3 losses are not finite", step: 9, attempt: 1, at: "" };
  render(<TrainingWords training={{ ...NOTHING, advice: [nan], checkpoint: INTERVAL }} />);
  expect(screen.getAllByRole("heading").map((each) => each.textContent)).toEqual([
    "The loss is not a number (NaN)",
    "Save a checkpoint every 1h 20m",
  ]);
  expect(checkpointWords(INTERVAL)).toBe(
    "By Daly: one takes 1m 00s, and its nodes fail every 2d 8h on average (3 failures in 15000 node-hours of its pool).",
  );
  expect(checkpointWords({ ...INTERVAL, measured: "stops", failures: 1 })).toBe(
    "By Daly: it took 1m 00s to go when it was asked to, and its nodes fail every 2d 8h on average (1 failure in 15000 node-hours of its pool).",
  );
});

test("a line of a log is text, whatever it holds", () => {
  const rule = {
    rule: "hang",
    line: "<img src=x onerror=alert(1)>",
    actions: ["cancel"],
    attempt: 1,
    rank: 0,
    node: "n1",
    at: "",
  };
  render(<TrainingWords training={{ ...NOTHING, rules: [rule] }} />);
  expect(screen.getByText("<img src=x onerror=alert(1)>").tagName).toBe("PRE");
});
