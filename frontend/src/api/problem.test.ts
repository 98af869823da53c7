import { expect, test } from "vitest";

import { csrfToken } from "./http";
import { isTransient, problemFrom, Unreachable } from "./problem";

test("it reads a problem document with its fields", () => {
  const problem = problemFrom(422, "", {
    type: "about:blank#invalid",
    title: "Some fields are wrong",
    detail: "gpus: too many",
    errors: [{ field: "gpus", message: "too many" }],
  });
  expect(problem).toMatchObject({
    status: 422,
    code: "invalid",
    message: "gpus: too many",
    fields: [{ field: "gpus", message: "too many" }],
  });
});

test("an answer that is no problem document keeps its status", () => {
  expect(problemFrom(418, "I'm a teapot", "<html>").message).toBe("I'm a teapot");
  expect(problemFrom(418, "", undefined).message).toBe("HTTP 418");
});

test("only trouble that may pass is tried again", () => {
  expect(isTransient(new Unreachable("x"))).toBe(true);
  expect(isTransient(problemFrom(503, "", null))).toBe(true);
  expect(isTransient(problemFrom(429, "", null))).toBe(true);
  expect(isTransient(problemFrom(404, "", null))).toBe(false);
});

test("it finds the CSRF token among other cookies", () => {
  expect(csrfToken("a=1; csrftoken=x%3Dy; b=2")).toBe("x=y");
  expect(csrfToken("xcsrftoken=no")).toBe("");
});
