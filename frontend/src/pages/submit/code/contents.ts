/** A folder of code as the page sees it, whether it came as a folder, a zip, a tar.gz or a single file. */
export interface Entry {
  /** Relative, with `/` between folders and none at the end. */
  path: string;
  /** In bytes; 0 for a folder. */
  size: number;
  isFolder: boolean;
}

/** An entry with its content, which can be read until the next entry is asked for. */
export interface OpenEntry extends Entry {
  executable: boolean;
  /** Writes the content and closes the stream. */
  copyTo: (into: WritableStream<Uint8Array>, signal: AbortSignal) => Promise<void>;
}

export interface Source {
  /** As the person knows it: `train`, `code.zip`. */
  name: string;
  /** What a person should know of how it was read; "" where there is nothing. */
  note: string;
  /** How many files were left out already, as far as that is known. */
  ignored: number;
  /** What there is, in the order of paths. */
  entries: readonly Entry[];
  /** Opens the chosen entries one after the other; a path loses `base` from its front. */
  open: (chosen: readonly Entry[], base: string) => AsyncIterable<OpenEntry> | Iterable<OpenEntry>;
  /** The text of a small file, or null where there is none. */
  readText: (path: string) => Promise<string | null>;
  /** The archive that can be sent as it is; null where one has to be packed. */
  ready: Blob | null;
}

export interface Selection {
  /** With the paths that they have in the job's working directory. */
  entries: readonly Entry[];
  /** How many entries the ignore rules left out. */
  ignored: number;
}

/** Returns what lies below `base` ("" or a path with a slash at its end) and is not ignored. */
export function select(
  entries: readonly Entry[],
  base: string,
  isIgnored: (path: string) => boolean,
): Selection {
  const below = entries
    .filter((entry) => entry.path.startsWith(base))
    .map((entry) => ({ ...entry, path: entry.path.slice(base.length) }));
  const kept = below.filter((entry) => !isIgnored(entry.isFolder ? `${entry.path}/` : entry.path));
  return { entries: kept, ignored: below.length - kept.length };
}

/** Returns the one folder in which everything lies, or null. */
export function topFolder(entries: readonly Entry[]): string | null {
  const [first] = entries;
  if (first === undefined) return null;
  const [name = ""] = first.path.split("/");
  const inside = (entry: Entry) =>
    entry.path.startsWith(`${name}/`) || (entry.isFolder && entry.path === name);
  return entries.every(inside) && entries.some((entry) => !entry.isFolder) ? name : null;
}

const USUAL_SCRIPTS = ["train.py", "main.py"];

/** Returns the command that runs the code, or null where several scripts could be meant. */
export function proposedCommand(entries: readonly Entry[]): string | null {
  const scripts = entries
    .filter((entry) => !entry.isFolder && !entry.path.includes("/") && entry.path.endsWith(".py"))
    .map((entry) => entry.path);
  const script =
    USUAL_SCRIPTS.find((name) => scripts.includes(name)) ?? (scripts.length === 1 ? scripts[0] : undefined);
  return script === undefined ? null : `python3 ${shellWord(script)}`;
}

/** Returns the name as one word of a shell. */
function shellWord(name: string): string {
  const path = name.startsWith("-") ? `./${name}` : name;
  return /^[\w./+-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}

export const byPath = (one: Entry, other: Entry): number =>
  one.path < other.path ? -1 : one.path > other.path ? 1 : 0;
