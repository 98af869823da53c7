/** What an archive of code may hold. The server and the command line have the same limits; a test compares them. */
import { bytes, count } from "../../../format/amount";

export const MAX_ARCHIVE_BYTES = 100 * 1024 * 1024;
export const MAX_UNPACKED_BYTES = 1024 * 1024 * 1024;
export const MAX_ENTRIES = 50_000;
export const MAX_DEPTH = 64;
export const MAX_PATH_BYTES = 1024;
export const MAX_NAME_BYTES = 255;

export const IGNORE_FILE = ".musterignore";
/** The patterns that the command line leaves out too. A `!` line of .musterignore takes any of these back in. */
export const DEFAULT_IGNORES = [".git/", ".hg/", ".svn/", ".venv/", "__pycache__/", "*.py[co]", ".DS_Store"];

const BLOCK_BYTES = 512;
// What Python's str.isprintable refuses, which the server asks of every path.
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/u;
const encoder = new TextEncoder();

/** Code that cannot be taken. The message says why, and what to do. */
export class CodeRefused extends Error {
  constructor(message: string) {
    super(message);
    this.name = "CodeRefused";
  }
}

/**
 * Returns the path without `.` and doubled slashes; "" is the folder itself.
 *
 * @throws CodeRefused if the path is absolute, leads out of the folder, or is one that the nodes cannot make
 */
export function safePath(path: string): string {
  const shown = JSON.stringify(path.slice(0, 200));
  if (path.startsWith("/") || /^[A-Za-z]:[\\/]/.test(path))
    throw new CodeRefused(
      `It holds ${shown}, which is an absolute path. Pack the files with relative paths.`,
    );
  const parts = path.split("/").filter((part) => part !== "" && part !== ".");
  if (parts.includes(".."))
    throw new CodeRefused(`It holds ${shown}, which leads out of the folder. Pack the files without "..".`);
  if (UNPRINTABLE.test(path))
    throw new CodeRefused(
      `It holds ${shown}, a name with characters that cannot be shown. Rename that file.`,
    );
  if (parts.length > MAX_DEPTH)
    throw new CodeRefused(`It holds ${shown}, which lies deeper than ${MAX_DEPTH} folders.`);
  const sizes = parts.map((part) => encoder.encode(part).length);
  const total = sizes.reduce((sum, size) => sum + size + 1, 0);
  if (total > MAX_PATH_BYTES || Math.max(0, ...sizes) > MAX_NAME_BYTES)
    throw new CodeRefused(
      `It holds ${shown}…, a path of more than ${count(MAX_PATH_BYTES)} bytes or a name of more than ${MAX_NAME_BYTES}.`,
    );
  return parts.join("/");
}

interface Sized {
  path: string;
  size: number;
}

/**
 * Checks a list of files before any of their content is read.
 *
 * @throws CodeRefused if the list is empty, too long, or has too many bytes unpacked
 */
export function checkSizes(name: string, entries: readonly (Sized & { isFolder: boolean })[]): void {
  if (!entries.some((entry) => !entry.isFolder)) throw new CodeRefused(`${name} holds no file to run.`);
  if (entries.length > MAX_ENTRIES) throw tooMany(name);
  const unpacked = entries.reduce(
    (sum, entry) => sum + BLOCK_BYTES + Math.ceil(entry.size / BLOCK_BYTES) * BLOCK_BYTES,
    2 * BLOCK_BYTES,
  );
  if (unpacked > MAX_UNPACKED_BYTES) throw tooLarge(name, `${bytes(unpacked)} of files`, entries);
}

/** The refusal of a list with more than `MAX_ENTRIES` entries. */
export function tooMany(name: string): CodeRefused {
  return new CodeRefused(
    `${name} holds more than ${count(MAX_ENTRIES)} files. List in ${IGNORE_FILE} what the job does not need; ` +
      "data belongs on a volume.",
  );
}

/** The refusal of too many bytes, with the largest files; `has` says how many bytes there are. */
export function tooLarge(name: string, has: string, entries: readonly Sized[]): CodeRefused {
  const largest = entries
    .toSorted((one, other) => other.size - one.size)
    .slice(0, 3)
    .map((entry) => `${entry.path} (${bytes(entry.size)})`);
  return new CodeRefused(
    `${name} has ${has}; code may have ${bytes(MAX_UNPACKED_BYTES)}, and ${bytes(MAX_ARCHIVE_BYTES)} packed. ` +
      (largest.length === 0 ? "" : `Largest: ${largest.join(", ")}. `) +
      `List in ${IGNORE_FILE} what the job does not need; data belongs on a volume.`,
  );
}
