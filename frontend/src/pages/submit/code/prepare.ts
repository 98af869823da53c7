/** From what a person gave to an archive that can be sent. This module and its libraries are loaded on the first use. */
import { bytes } from "../../../format/amount";
import { sha256 } from "../sha256";
import { select, type Selection, type Source } from "./contents";
import { droppedFolder, pickedFolder, singleFile } from "./folder";
import { ignoreFilter } from "./ignored";
import { checkSizes, CodeRefused, IGNORE_FILE, MAX_ARCHIVE_BYTES } from "./limits";
import { openTarball, pack } from "./tarball";
import { openZip } from "./zip";

/** What came out of a picker or a drop. */
export type Given =
  | { kind: "file"; file: File }
  | { kind: "folder"; files: readonly File[] }
  | { kind: "dropped"; entry: FileSystemDirectoryEntry };

export interface Prepared extends Selection {
  archive: Blob;
  sha256: string;
}

/**
 * Lists what was given. No content is read but the lists of archives and .musterignore.
 *
 * @throws CodeRefused with the reason and the remedy
 */
export async function openGiven(
  given: Given,
  signal: AbortSignal,
  onFound: (files: number) => void,
): Promise<Source> {
  if (given.kind === "dropped") return droppedFolder(given.entry, signal, onFound);
  if (given.kind === "folder") return pickedFolder(given.files);
  const { file } = given;
  const head = new Uint8Array(await file.slice(0, 4).arrayBuffer());
  const starts = (...bytes: number[]) => bytes.every((byte, index) => head[index] === byte);
  if (starts(0x50, 0x4b, 3, 4) || starts(0x50, 0x4b, 5, 6)) return openZip(file, signal);
  if (starts(0x1f, 0x8b)) {
    if (file.size > MAX_ARCHIVE_BYTES)
      throw new CodeRefused(
        `${file.name} has ${bytes(file.size)}; an archive may have ${bytes(MAX_ARCHIVE_BYTES)}. Data belongs on a volume.`,
      );
    return openTarball(file, signal);
  }
  if (file.name.endsWith(".py")) return singleFile(file);
  throw new CodeRefused(
    `${file.name} is no folder, .zip, .py or .tar.gz. Choose the folder that it lies in, ` +
      "or pack one with: tar czf code.tar.gz -C FOLDER .",
  );
}

/**
 * Packs what lies below `base` ("", or a folder's path with a slash at its end).
 *
 * @throws CodeRefused with the reason and the remedy
 */
export async function prepare(
  source: Source,
  base: string,
  signal: AbortSignal,
  onPacked: (entries: number, of: number) => void,
): Promise<Prepared> {
  // An archive that a person made is sent as it is; what they did not want in it they left out.
  const rules = source.ready === null ? await source.readText(base + IGNORE_FILE) : null;
  const isIgnored = source.ready === null ? ignoreFilter(rules ?? "") : () => false;
  const selection = select(source.entries, base, isIgnored);
  const name = base === "" ? source.name : base;
  checkSizes(name, selection.entries);
  const archive =
    source.ready !== null && base === ""
      ? source.ready
      : await pack({
          name,
          listed: selection.entries,
          entries: source.open(selection.entries, base),
          signal,
          onPacked: (packed) => onPacked(packed, selection.entries.length),
        });
  signal.throwIfAborted();
  const ignored = source.ignored + selection.ignored;
  return {
    ...selection,
    ignored,
    archive,
    sha256: await sha256(new Uint8Array(await archive.arrayBuffer())),
  };
}
