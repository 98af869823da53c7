/** Code from a folder of the person's machine: picked (a flat list of files) or dropped (entries to walk). */
import { byPath, type Entry, type OpenEntry, type Source } from "./contents";
import { ignoreFilter } from "./ignored";
import { CodeRefused, IGNORE_FILE, MAX_ENTRIES, safePath, tooMany } from "./limits";

const NOTE = "Links and empty folders are left out: a browser does not show them to a page.";
/** Up to this size a file is read at once, which is several times as fast as a stream. */
const MAX_BYTES_AT_ONCE = 1024 * 1024;

const FILES_AT_ONCE = 200;

interface FoundFile extends Entry {
  file: File;
}

/**
 * Reads what a picker of folders gave: each file names its path below the picked folder.
 *
 * Files are ignored and counted by their paths, before their sizes are asked for: a browser looks up each size on the
 * disk, and the page waits meanwhile.
 */
export async function pickedFolder(files: readonly File[]): Promise<Source> {
  const [first] = files;
  const name = first?.webkitRelativePath.split("/")[0] ?? "The folder";
  const found = files.map((file) => ({ path: file.webkitRelativePath.slice(name.length + 1), file }));
  const rules = await found.find(({ path }) => path === IGNORE_FILE)?.file.text();
  const isIgnored = ignoreFilter(rules ?? "");
  const kept = found.filter(({ path }) => !isIgnored(path));
  if (kept.length > MAX_ENTRIES) throw tooMany(name);
  const sized = kept.map((each) => ({ ...each, size: each.file.size, isFolder: false }));
  return { ...(await sourceOf(name, NOTE, sized)), ignored: found.length - kept.length };
}

/**
 * Walks a dropped folder and leaves out what its .musterignore and the defaults name, without looking into it.
 *
 * @param onFound gets the number of files found so far
 */
export async function droppedFolder(
  root: FileSystemDirectoryEntry,
  signal: AbortSignal,
  onFound: (files: number) => void,
): Promise<Source> {
  const found: { path: string; entry: FileSystemEntry }[] = [];
  const rules = (await children(root)).find((child) => child.isFile && child.name === IGNORE_FILE);
  const isIgnored = ignoreFilter(rules === undefined ? "" : await (await fileOf(rules)).text());
  const walk = async (folder: FileSystemDirectoryEntry, prefix: string): Promise<void> => {
    for (const child of await children(folder)) {
      signal.throwIfAborted();
      const path = prefix + child.name;
      if (isIgnored(child.isDirectory ? `${path}/` : path)) continue;
      if (child.isDirectory) {
        safePath(path);
        await walk(child as FileSystemDirectoryEntry, `${path}/`);
        continue;
      }
      if (found.length >= MAX_ENTRIES) throw tooMany(root.name);
      found.push({ path, entry: child });
    }
    onFound(found.length);
  };
  await walk(root, "");
  // To open a file takes the browser a hundred times as long as to list it, so the files are counted before.
  const files: FoundFile[] = [];
  while (files.length < found.length) {
    signal.throwIfAborted();
    const some = found.slice(files.length, files.length + FILES_AT_ONCE);
    const opened = some.map(async ({ path, entry }) => {
      const file = await fileOf(entry);
      return { path, size: file.size, isFolder: false, file };
    });
    files.push(...(await Promise.all(opened)));
  }
  return sourceOf(root.name, NOTE, files);
}

/** A single script: the folder holds nothing else. */
export function singleFile(file: File): Promise<Source> {
  return sourceOf(file.name, "", [{ path: file.name, size: file.size, isFolder: false, file }]);
}

// eslint-disable-next-line @typescript-eslint/require-await -- a refused path rejects, as it does for archives
async function sourceOf(name: string, note: string, found: readonly FoundFile[]): Promise<Source> {
  for (const { path } of found) safePath(path);
  const files = new Map(found.map((each) => [each.path, each.file]));
  return {
    name,
    note,
    ignored: 0,
    entries: found.map(({ path, size, isFolder }) => ({ path, size, isFolder })).toSorted(byPath),
    async *open(chosen, base): AsyncGenerator<OpenEntry> {
      for (const entry of chosen) {
        const file = files.get(base + entry.path);
        if (file === undefined) continue;
        const small = file.size <= MAX_BYTES_AT_ONCE ? await bytesOf(entry.path, file) : null;
        yield {
          ...entry,
          executable: isProgram(small ?? (await bytesOf(entry.path, file.slice(0, 4)))),
          copyTo: async (into, signal) => {
            if (small === null) {
              await file.stream().pipeTo(into, { signal });
              return;
            }
            const writer = into.getWriter();
            await writer.write(small);
            await writer.close();
          },
        };
      }
    },
    readText: async (path) => (await files.get(path)?.text()) ?? null,
    ready: null,
  };
}

/** Browsers do not tell whether a file may be executed; its first bytes say whether it is meant to be. */
function isProgram(head: Uint8Array): boolean {
  const starts = (...bytes: number[]) => bytes.every((byte, index) => head[index] === byte);
  return starts(0x23, 0x21) || starts(0x7f, 0x45, 0x4c, 0x46); // "#!" or an ELF file
}

async function bytesOf(path: string, blob: Blob): Promise<Uint8Array<ArrayBuffer>> {
  try {
    return new Uint8Array(await blob.arrayBuffer());
  } catch {
    throw new CodeRefused(`${path} changed or cannot be read. Choose the folder again.`);
  }
}

async function children(folder: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> {
  const reader = folder.createReader();
  const all: FileSystemEntry[] = [];
  for (;;) {
    // The browser gives about a hundred at a time, and an empty list at the end.
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => {
      reader.readEntries(resolve, reject);
    });
    if (some.length === 0) return all.sort((one, other) => (one.name < other.name ? -1 : 1));
    all.push(...some);
    if (all.length > MAX_ENTRIES) throw tooMany(folder.name);
  }
}

const fileOf = (entry: FileSystemEntry): Promise<File> =>
  new Promise((resolve, reject) => {
    (entry as FileSystemFileEntry).file(resolve, reject);
  });
