/** The part of an address after the question mark, as plain text values: `?state=queued&mine=1`. */

export type SearchText = Record<string, string>;

export function parseSearch(text: string): SearchText {
  return Object.fromEntries(new URLSearchParams(text));
}

export function stringifySearch(search: Record<string, unknown>): string {
  const params = new URLSearchParams();
  for (const [key, value] of Object.entries(search)) {
    if (typeof value === "string" ? value !== "" : typeof value === "number") params.set(key, String(value));
  }
  const text = params.toString();
  return text === "" ? "" : `?${text}`;
}

/** The named text values of an address; everything else in it is left out. */
export function pick<K extends string>(
  search: Record<string, unknown>,
  ...keys: K[]
): Partial<Record<K, string>> {
  const found: Partial<Record<K, string>> = {};
  for (const key of keys) {
    const value = search[key];
    if (typeof value === "string" && value !== "") found[key] = value;
  }
  return found;
}

/** Where to go after signing in: only a path of our own, never another site. */
export function safeNext(next: string | undefined): string {
  if (next === undefined || !/^\/(?![/\\])/.test(next) || next.startsWith("/signin")) return "/";
  return next;
}
