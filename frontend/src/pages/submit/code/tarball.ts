/** The archive that the platform takes: how one is made, and how one that a person made is read. */
import { createTarDecoder, createTarPacker, type ParsedTarEntry } from "modern-tar";

import { bytes } from "../../../format/amount";
import { byPath, type Entry, type OpenEntry, type Source } from "./contents";
import {
  CodeRefused,
  MAX_ARCHIVE_BYTES,
  MAX_ENTRIES,
  MAX_UNPACKED_BYTES,
  safePath,
  tooLarge,
  tooMany,
} from "./limits";

const EPOCH = new Date(0);

interface Packing {
  /** Of the source, for the refusal. */
  name: string;
  listed: readonly Entry[];
  entries: AsyncIterable<OpenEntry> | Iterable<OpenEntry>;
  signal: AbortSignal;
  /** Gets the number of entries packed so far. */
  onPacked: (entries: number) => void;
  maxBytes?: number;
}

/**
 * Packs entries as a tar.gz without times and owners, so that the same files make the same archive again.
 *
 * @throws CodeRefused if the archive is larger than `maxBytes`
 */
export async function pack({
  name,
  listed,
  entries,
  signal,
  onPacked,
  maxBytes = MAX_ARCHIVE_BYTES,
}: Packing): Promise<Blob> {
  const { readable, controller } = createTarPacker();
  const filled = fill(controller, entries, signal, onPacked);
  const gzip = new CompressionStream("gzip") as ReadableWritablePair<Uint8Array<ArrayBuffer>, Uint8Array>;
  const reader = readable.pipeThrough(gzip).getReader();
  const parts: Uint8Array<ArrayBuffer>[] = [];
  const collect = async () => {
    let size = 0;
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      size += value.length;
      if (size > maxBytes) {
        const refusal = tooLarge(name, `more than ${bytes(maxBytes)} when packed`, listed);
        await reader.cancel(refusal);
        throw refusal;
      }
      parts.push(value);
    }
  };
  await Promise.all([filled, collect()]);
  return new Blob(parts, { type: "application/gzip" });
}

async function fill(
  controller: ReturnType<typeof createTarPacker>["controller"],
  entries: AsyncIterable<OpenEntry> | Iterable<OpenEntry>,
  signal: AbortSignal,
  onPacked: (entries: number) => void,
): Promise<void> {
  let packed = 0;
  try {
    for await (const entry of entries) {
      signal.throwIfAborted();
      const into = controller.add({
        name: entry.isFolder ? `${entry.path}/` : entry.path,
        type: entry.isFolder ? "directory" : "file",
        size: entry.size,
        mode: entry.executable || entry.isFolder ? 0o755 : 0o644,
        mtime: EPOCH,
      });
      await entry.copyTo(into, signal);
      packed += 1;
      if (packed % 50 === 0) onPacked(packed);
    }
    controller.finalize();
  } catch (error) {
    controller.error(error);
    throw error;
  }
}

/**
 * Reads the list of a tar.gz.
 *
 * @throws CodeRefused for what the server refuses too: links, paths that lead out of the folder, too many entries or
 *   bytes, and what is no tar.gz
 */
export async function openTarball(
  file: File,
  signal: AbortSignal,
  maxBytes = MAX_UNPACKED_BYTES,
): Promise<Source> {
  const entries = new Map<string, Entry>();
  await eachEntry(entriesOf(file, signal, maxBytes), file.name, signal, async ({ header, body }) => {
    await body.cancel();
    const path = safePath(header.name);
    if (path === "") return;
    const isFolder = header.type === "directory";
    if (!isFolder && header.type !== "file")
      throw new CodeRefused(
        `It holds ${path}, which is a link or a device. Pack what it points to: tar czhf code.tar.gz -C FOLDER .`,
      );
    if (!entries.has(path) && entries.size >= MAX_ENTRIES) throw tooMany(file.name);
    entries.set(path, { path, size: isFolder ? 0 : header.size, isFolder });
  });
  return {
    name: file.name,
    note: "",
    ignored: 0,
    entries: [...entries.values()].sort(byPath),
    open: (chosen, base) => reopen(file, signal, new Set(chosen.map((entry) => base + entry.path)), base),
    readText: () => Promise.resolve(null),
    ready: file,
  };
}

/** Yields the chosen entries in the order of the archive, which is read a second time. */
async function* reopen(
  file: File,
  signal: AbortSignal,
  chosen: ReadonlySet<string>,
  base: string,
): AsyncGenerator<OpenEntry> {
  const reader = entriesOf(file, signal, MAX_UNPACKED_BYTES).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const { header, body } = value;
    const path = safePath(header.name);
    if (!chosen.has(path)) {
      await body.cancel();
      continue;
    }
    const isFolder = header.type === "directory";
    yield {
      path: path.slice(base.length),
      size: isFolder ? 0 : header.size,
      isFolder,
      executable: isFolder || ((header.mode ?? 0) & 0o111) !== 0,
      copyTo: (into, abort) => body.pipeTo(into, { signal: abort }),
    };
  }
}

async function eachEntry(
  entries: ReadableStream<ParsedTarEntry>,
  name: string,
  signal: AbortSignal,
  take: (entry: ParsedTarEntry) => Promise<void>,
): Promise<void> {
  const reader = entries.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      await take(value);
    }
  } catch (error) {
    await reader.cancel(error).catch(() => undefined);
    if (error instanceof CodeRefused || signal.aborted) throw error;
    throw new CodeRefused(
      `${name} is no tar.gz that can be read. Make one with: tar czf code.tar.gz -C FOLDER .`,
    );
  }
}

function entriesOf(file: File, signal: AbortSignal, maxBytes: number): ReadableStream<ParsedTarEntry> {
  let unpacked = 0;
  const counted = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      unpacked += chunk.length;
      if (unpacked > maxBytes)
        controller.error(tooLarge(file.name, `more than ${bytes(maxBytes)} when unpacked`, []));
      else controller.enqueue(chunk);
    },
  });
  const gunzip = new DecompressionStream("gzip") as ReadableWritablePair<Uint8Array, Uint8Array>;
  return file.stream().pipeThrough(gunzip, { signal }).pipeThrough(counted).pipeThrough(createTarDecoder());
}
