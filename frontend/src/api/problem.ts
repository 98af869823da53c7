import type { components } from "./schema";

/** One field of a request that the server refused, e.g. `checkpoint.grace`. */
export type FieldError = components["schemas"]["FieldError"];

/** An answer of the server that says no (problem details, RFC 9457). */
export class Problem extends Error {
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  readonly fields: readonly FieldError[];

  constructor(status: number, title: string, detail: string, code: string, fields: readonly FieldError[]) {
    super(detail === "" ? title : detail);
    this.name = "Problem";
    this.status = status;
    this.detail = detail;
    this.code = code;
    this.fields = fields;
  }
}

/** No answer at all, or an answer of a proxy that cannot reach the platform. */
export class Unreachable extends Error {
  constructor(cause: unknown) {
    super("Muster does not answer.", { cause });
    this.name = "Unreachable";
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** The problem that a refused answer describes; an answer without a readable body keeps its status. */
export function problemFrom(status: number, statusText: string, body: unknown): Problem {
  if (!isRecord(body)) {
    return new Problem(status, statusText || `HTTP ${status}`, "", "", []);
  }
  const fields = Array.isArray(body.errors)
    ? body.errors
        .filter(isRecord)
        .map((entry) => ({ field: text(entry.field), message: text(entry.message) }))
    : [];
  const title = text(body.title) || statusText || `HTTP ${status}`;
  const code = text(body.type).split("#")[1] ?? "";
  return new Problem(status, title, text(body.detail), code, fields);
}

/** What to tell a person about any error. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** True for answers that another try, unchanged, may turn into a yes. */
export function isTransient(error: unknown): boolean {
  return (
    error instanceof Unreachable ||
    (error instanceof Problem && (error.status === 429 || error.status >= 500))
  );
}
