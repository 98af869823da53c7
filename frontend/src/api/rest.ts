/** How each call is made, and its answer read. */
import createClient from "openapi-fetch";

import { send } from "./http";
import { problemFrom } from "./problem";
import type { paths } from "./schema";

export const http = createClient<paths>({ baseUrl: window.location.origin, fetch: send });

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** What was answered; a refusal is thrown as the problem that it describes. */
export async function read<T>(answer: Promise<Answer<T>>): Promise<T> {
  const { data, error, response } = await answer;
  if (!response.ok) throw problemFrom(response.status, response.statusText, error);
  return data as T;
}

/** The values that are given, as the query of an address. */
export function queryString(values: object): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined) params.set(name, String(value));
  }
  return params.toString();
}
