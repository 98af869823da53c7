/** Which files are left out of the code, as the command line leaves them out. */
import ignore from "ignore";

import { DEFAULT_IGNORES } from "./limits";

// macOS adds this folder to each zip that it makes.
const ZIP_LITTER = "__MACOSX/";

/** Returns whether a path is left out; a folder's path ends in a slash. `rules` is the text of .musterignore. */
export function ignoreFilter(rules: string): (path: string) => boolean {
  const filter = ignore({ ignorecase: false })
    .add([...DEFAULT_IGNORES, ZIP_LITTER])
    .add(rules);
  return (path) => filter.ignores(path);
}
