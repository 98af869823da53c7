/** Code from a zip. Its list is checked before any file in it is unpacked. */
import { BlobReader, configure, ZipReader, type FileEntry } from "@zip.js/zip.js/lib/zip-core-native.js";

import { byPath, type Entry, type OpenEntry, type Source } from "./contents";
import { CodeRefused, MAX_ENTRIES, safePath, tooMany } from "./limits";

const MAX_TEXT_BYTES = 1024 * 1024;

// The browser inflates outside of the page's thread without a worker, which the content security policy would refuse.
configure({ useWebWorkers: false });

interface Found {
  entry: Entry;
  file: FileEntry | null;
}

/**
 * Reads the list of a zip.
 *
 * @throws CodeRefused for links, encrypted files, paths that lead out of the folder, and too many entries
 */
export async function openZip(file: File, signal: AbortSignal): Promise<Source> {
  const found = new Map<string, Found>();
  try {
    const reader = new ZipReader(new BlobReader(file), { filenameValidation: "tolerant" });
    for await (const entry of reader.getEntriesGenerator()) {
      signal.throwIfAborted();
      if (found.size >= MAX_ENTRIES) throw tooMany(file.name);
      if (entry.filename.includes("\\"))
        throw new CodeRefused(
          `It holds ${JSON.stringify(entry.filename.slice(0, 200))}, with \\ between folders. Pack it with a newer program.`,
        );
      const path = safePath(entry.filename);
      if (path === "") continue;
      if (entry.symlink)
        throw new CodeRefused(
          `It holds ${path}, which is a link. Pack the file that it points to: zip without -y.`,
        );
      if (entry.encrypted)
        throw new CodeRefused(`It holds ${path}, which is encrypted. Pack it without a password.`);
      if (found.has(path)) throw new CodeRefused(`It holds ${path} twice. Pack the folder again.`);
      found.set(path, {
        entry: { path, size: entry.directory ? 0 : entry.uncompressedSize, isFolder: entry.directory },
        file: entry.directory ? null : entry,
      });
    }
  } catch (error) {
    if (error instanceof CodeRefused || signal.aborted) throw error;
    throw new CodeRefused(`It is no zip that can be read (${messageIn(error)}). Pack it again.`);
  }
  return {
    name: file.name,
    note: "",
    ignored: 0,
    entries: [...found.values()].map((each) => each.entry).sort(byPath),
    *open(chosen, base): Generator<OpenEntry> {
      for (const entry of chosen) {
        const inside = found.get(base + entry.path)?.file ?? null;
        yield {
          ...entry,
          executable: inside?.executable ?? true,
          copyTo: (into, abort) => (inside === null ? into.close() : inflate(inside, into, abort)),
        };
      }
    },
    readText: async (path) => {
      const inside = found.get(path)?.file ?? null;
      if (inside === null) return null;
      if (inside.uncompressedSize > MAX_TEXT_BYTES)
        throw new CodeRefused(`Its ${path} is larger than 1 MiB.`);
      const text = new TransformStream<Uint8Array, Uint8Array>();
      const [content] = await Promise.all([
        new Response(text.readable).text(),
        inflate(inside, text.writable, signal),
      ]);
      return content;
    },
    ready: null,
  };
}

/** Unpacks a file of a zip; one that unpacks to more bytes than its zip declares is cut off there and refused. */
async function inflate(
  file: FileEntry,
  into: WritableStream<Uint8Array>,
  signal: AbortSignal,
): Promise<void> {
  const writer = into.getWriter();
  let left = file.uncompressedSize;
  const counted = new WritableStream<Uint8Array>({
    write: async (chunk) => {
      left -= chunk.length;
      if (left < 0) throw new CodeRefused(`${file.filename} unpacks to more bytes than its zip says.`);
      await writer.write(chunk);
    },
  });
  try {
    await file.getData(counted, { checkSignature: true, signal });
    await writer.close();
  } catch (error) {
    const refused =
      error instanceof CodeRefused || signal.aborted
        ? error
        : left < 0
          ? new CodeRefused(`${file.filename} unpacks to more bytes than its zip says.`)
          : new CodeRefused(`${file.filename} in it is damaged (${messageIn(error)}). Pack it again.`);
    await writer.abort(refused).catch(() => undefined);
    throw refused;
  }
}

const messageIn = (error: unknown): string => (error instanceof Error ? error.message : String(error));
