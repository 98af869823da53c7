import { expect, test } from "vitest";

import { AT, makeAttempt, makeJob } from "../../testing/makers";
import { timelineOf } from "./timeline";

const status = (timeline: ReturnType<typeof timelineOf>) => timeline.phases.map((phase) => phase.status);

test("a job in the queue only waits", () => {
  const timeline = timelineOf(makeJob(), []);
  expect(status(timeline)).toEqual(["now", "todo", "todo"]);
  expect(timeline.phases[0]).toMatchObject({ from: AT(0), to: null });
});

test("a running job has waited and started", () => {
  const timeline = timelineOf(makeJob({ state: "active", started_at: AT(15) }), [makeAttempt()]);
  expect(status(timeline)).toEqual(["done", "done", "now"]);
  expect(timeline.phases[1]).toMatchObject({ from: AT(10), to: AT(15) });
});

test("a job that shall stop is stopping", () => {
  const job = makeJob({ state: "active", desired: "stop", started_at: AT(15) });
  expect(timelineOf(job, [makeAttempt()]).phases[2]?.name).toBe("Stopping");
});

test("an ended job has all its phases behind it", () => {
  const job = makeJob({ state: "failed", started_at: AT(15), ended_at: AT(60) });
  const timeline = timelineOf(job, [makeAttempt({ state: "failed", ended_at: AT(59) })]);
  expect(status(timeline)).toEqual(["done", "done", "done"]);
  expect(timeline.moments.at(-1)).toEqual({ name: "Failed", at: AT(60) });
});

test("a job that was cancelled in the queue never started", () => {
  const timeline = timelineOf(makeJob({ state: "cancelled", ended_at: AT(30) }), []);
  expect(status(timeline)).toEqual(["done", "skipped", "skipped"]);
  expect(timeline.phases[0]).toMatchObject({ to: AT(30) });
});

test("a job that failed while it started never ran", () => {
  const job = makeJob({ state: "failed", ended_at: AT(30) });
  const timeline = timelineOf(job, [makeAttempt({ started_at: null, ended_at: AT(30) })]);
  expect(status(timeline)).toEqual(["done", "done", "skipped"]);
});

test("a second try waits from the end of the first", () => {
  const first = makeAttempt({ state: "lost", ended_at: AT(40) });
  const second = makeAttempt({ number: 2, placed_at: AT(50), started_at: AT(52) });
  const timeline = timelineOf(makeJob({ state: "active", started_at: AT(52) }), [second, first]);
  expect(timeline.moments[0]).toEqual({ name: "Queued again", at: AT(40) });
  expect(timeline.phases[0]).toMatchObject({ from: AT(40), to: AT(50) });
});

test("a job that is queued again shows only its waiting", () => {
  const timeline = timelineOf(makeJob({ state: "queued" }), [
    makeAttempt({ state: "lost", ended_at: AT(40) }),
  ]);
  expect(status(timeline)).toEqual(["now", "todo", "todo"]);
  expect(timeline.phases[0]?.from).toBe(AT(40));
});
