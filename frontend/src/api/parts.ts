/** How the code of a page comes from the server once that page is wanted. */

/** How long to wait before each further try, in ms. */
const WAITS_MS = [400, 1600];

/**
 * Imports a part of the pages, and tries again where it was lost on the way.
 *
 * A browser breaks off everything that it loads when an address of its machine comes or goes: a network that is joined
 * or left, or a container that starts there. Whoever opened a page at that moment should not be told of it.
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
