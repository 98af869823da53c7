import { reachable } from "./connectivity";
import { problemFrom, Unreachable, type Problem } from "./problem";

export const API = "/api/v1";

/** Answers by which a proxy says that nobody is behind it. */
const NOBODY_HOME = new Set([502, 503, 504]);

export function csrfToken(cookies: string = document.cookie): string {
  const found = /(?:^|;\s*)csrftoken=([^;]+)/.exec(cookies);
  return found?.[1] === undefined ? "" : decodeURIComponent(found[1]);
}

/** A random identifier; `crypto.randomUUID` only exists on HTTPS and localhost, this works everywhere. */
export function randomId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function bodyOf(response: Response): Promise<unknown> {
  const type = response.headers.get("content-type") ?? "";
  if (!type.includes("json")) return null;
  try {
    return await response.json();
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

/** Sends one request with the session's cookie; resolves to any answer below 400, else throws. */
export async function send(request: Request): Promise<Response> {
  if (request.method !== "GET" && request.method !== "HEAD") {
    request.headers.set("X-CSRFToken", csrfToken());
  }
  let response: Response;
  try {
    response = await fetch(request);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    reachable.set(false);
    throw new Unreachable(error);
  }
  if (NOBODY_HOME.has(response.status)) {
    reachable.set(false);
    throw new Unreachable(response.status);
  }
  reachable.set(true);
  return response;
}

export async function problemOf(response: Response): Promise<Problem> {
  return problemFrom(response.status, response.statusText, await bodyOf(response.clone()));
}
