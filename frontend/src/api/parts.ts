/** How the code of a page comes from the server once that page is wanted. */

/** How long to wait before each further try, in ms. */
const WAITS_MS = [400, 1600];

/**
 * Imports a part of the pages, and retries if the download breaks off.
 *
 * A browser aborts all downloads when an address of its machine comes or goes: when it joins or leaves a network, or
 * when a container starts there. The user should not see an error for that.
 *
 * @throws what the last try did, if none succeeds: a server that is away, or a newer one that no longer has this part
 */
export async function loadPart<Part>(load: () => Promise<Part>): Promise<Part> {
  for (const wait of WAITS_MS) {
    try {
      return await load();
    } catch {
      await new Promise((done) => window.setTimeout(done, wait));
    }
  }
  return load();
}
