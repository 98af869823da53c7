import { reachable } from "./connectivity";
import { Unreachable } from "./problem";

/** Answers of a proxy that cannot reach the platform. */
const PROXY_ERRORS = new Set([502, 503, 504]);

export function csrfToken(cookies: string = document.cookie): string {
  const found = /(?:^|;\s*)csrftoken=([^;]+)/.exec(cookies);
  return found?.[1] === undefined ? "" : decodeURIComponent(found[1]);
}

/** A random identifier; `crypto.randomUUID` only exists on HTTPS and localhost, this works everywhere. */
export function randomId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Sends one request with the session's cookie; an answer of whatever status is an answer, none at all is thrown. */
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
  if (PROXY_ERRORS.has(response.status)) {
    reachable.set(false);
    throw new Unreachable(response.status);
  }
  reachable.set(true);
  return response;
}
