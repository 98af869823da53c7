// @vitest-environment node
import { ZipWriter, Uint8ArrayReader, Uint8ArrayWriter } from "@zip.js/zip.js/lib/zip-core-native.js";
import { packTar, unpackTar } from "modern-tar";
import { describe, expect, it } from "vitest";

import { proposedCommand, select, topFolder } from "./contents";
import { ignoreFilter } from "./ignored";
import { checkSizes, MAX_ENTRIES, safePath } from "./limits";
import { openGiven, prepare, type Given, type Prepared } from "./prepare";
import { openTarball, pack } from "./tarball";

const encoder = new TextEncoder();
const never = new AbortController().signal;
const ignore = () => undefined;

const file = (path: string, size = 1) => ({ path, size, isFolder: false });
const folder = (path: string) => ({ path, size: 0, isFolder: true });

function picked(files: Record<string, string | Blob>): Given {
  return {
    kind: "folder",
    files: Object.entries(files).map(([path, content]) => {
      const made = new File([content], path.split("/").at(-1) ?? "");
      return Object.defineProperty(made, "webkitRelativePath", { value: path });
    }),
  };
}

interface Tree {
  [name: string]: string | Tree;
}

/** A dropped folder as Chromium gives one: a hundred entries at a time, each asked for by itself. */
function dropped(
  name: string,
  tree: Tree,
): { kind: "dropped"; entry: FileSystemDirectoryEntry; opened: string[] } {
  const opened: string[] = [];
  const entryOf = (own: string, content: string | Tree): FileSystemEntry =>
    (typeof content === "string"
      ? {
          name: own,
          isFile: true,
          isDirectory: false,
          file: (done: (file: File) => void) => {
            opened.push(own);
            done(new File([content], own));
          },
        }
      : {
          name: own,
          isFile: false,
          isDirectory: true,
          createReader: () => {
            opened.push(own);
            const rest = Object.entries(content).map(([each, inside]) => entryOf(each, inside));
            return { readEntries: (done: (some: FileSystemEntry[]) => void) => done(rest.splice(0, 100)) };
          },
        }) as unknown as FileSystemEntry;
  return { kind: "dropped", entry: entryOf(name, tree) as FileSystemDirectoryEntry, opened };
}

async function zipOf(files: Record<string, string>, options: object = {}): Promise<Uint8Array<ArrayBuffer>> {
  const writer = new ZipWriter(new Uint8ArrayWriter(), { extendedTimestamp: false, dataDescriptor: false });
  for (const [name, content] of Object.entries(files))
    await writer.add(name, new Uint8ArrayReader(encoder.encode(content)), options);
  return writer.close();
}

async function tarGzOf(entries: Parameters<typeof packTar>[0]): Promise<Uint8Array<ArrayBuffer>> {
  const tar = new Blob([await packTar(entries)]).stream().pipeThrough(new CompressionStream("gzip"));
  return new Uint8Array(await new Response(tar).arrayBuffer());
}

const asFile = (name: string, data: BlobPart): Given => ({ kind: "file", file: new File([data], name) });

async function made(given: Given, base = ""): Promise<Prepared> {
  return prepare(await openGiven(given, never, ignore), base, never, ignore);
}

/** Paths, modes and texts of an archive. */
async function inside({ archive }: Prepared): Promise<Record<string, string>> {
  const tar = archive.stream().pipeThrough(new DecompressionStream("gzip"));
  const entries = await unpackTar(tar);
  return Object.fromEntries(
    entries.map(({ header, data }) => [
      `${header.name} ${(header.mode ?? 0).toString(8)}`,
      new TextDecoder().decode(data),
    ]),
  );
}

describe("a folder", () => {
  it("is packed by its contents, so that its files lie in the job's working directory", async () => {
    const prepared = await made(picked({ "train/train.py": "print(1)", "train/lib/a.py": "a" }));
    expect(await inside(prepared)).toEqual({ "lib/a.py 644": "a", "train.py 644": "print(1)" });
    expect(prepared.entries.map((entry) => entry.path)).toEqual(["lib/a.py", "train.py"]);
  });

  it("makes the same archive again, in whatever order its files come", async () => {
    const one = await made(picked({ "t/a": "1", "t/b": "2" }));
    const other = await made(picked({ "t/b": "2", "t/a": "1" }));
    expect(one.sha256).toBe(other.sha256);
    expect((await made(picked({ "t/a": "1", "t/b": "3" }))).sha256).not.toBe(one.sha256);
  });

  it("keeps programs executable", async () => {
    const prepared = await made(picked({ "t/run.sh": "#!/bin/sh\n", "t/data": "#" }));
    expect(Object.keys(await inside(prepared))).toEqual(["data 644", "run.sh 755"]);
  });

  it("holds large files and paths longer than a plain header", async () => {
    const path = `${"deep/".repeat(40)}${"n".repeat(120)}`;
    const prepared = await made(picked({ [`t/${path}`]: "x", "t/big": "b".repeat(3 << 20) }));
    const found = await inside(prepared);
    expect(Object.keys(found)).toEqual(["big 644", `${path} 644`]);
    expect(found["big 644"]).toHaveLength(3 << 20);
  });

  it("leaves out what .musterignore and the defaults name", async () => {
    const prepared = await made(
      picked({
        "t/.musterignore": "data/\n!keep.pyc\n",
        "t/.git/config": "x",
        "t/sub/__pycache__/a.pyc": "x",
        "t/keep.pyc": "x",
        "t/data/huge": "x",
        "t/train.py": "x",
      }),
    );
    expect(prepared.entries.map((entry) => entry.path)).toEqual([".musterignore", "keep.pyc", "train.py"]);
    expect(prepared.ignored).toBe(3);
  });

  it("that is dropped is walked without the folders that are ignored", async () => {
    const given = dropped("t", {
      ".musterignore": "data\n",
      ".git": { config: "x" },
      data: { huge: "x" },
      lib: { "a.py": "a" },
      "train.py": "print(1)",
    });
    expect(await inside(await made(given))).toEqual({
      ".musterignore 644": "data\n",
      "lib/a.py 644": "a",
      "train.py 644": "print(1)",
    });
    expect(given.opened).not.toContain(".git");
    expect(given.opened).not.toContain("data");
  });

  it("of too many files is refused before any of them is read", async () => {
    const tree: Tree = {};
    for (let index = 0; index < 1_001; index += 1) {
      tree[`d${index}`] = Object.fromEntries(Array.from({ length: 100 }, (_, number) => [`f${number}`, ""]));
    }
    const given = dropped("t", tree);
    await expect(made(given)).rejects.toThrow("t holds more than 50,000 files");
    // Of the folders as many as hold these, and no file.
    expect(given.opened.length).toBeLessThan(505);
    expect(given.opened.filter((name) => name.startsWith("f"))).toEqual([]);
  });

  it("of too many files is refused by their paths, before the browser looks up any size", async () => {
    const files = Array.from({ length: MAX_ENTRIES + 1 }, (_, index) => {
      const unread = { webkitRelativePath: `t/f${index}` };
      return Object.defineProperty(unread, "size", {
        get: () => expect.unreachable("the size was looked up"),
      }) as unknown as File;
    });
    await expect(made({ kind: "folder", files })).rejects.toThrow("t holds more than 50,000 files");
  });

  it("of 10 GiB is refused before any of it is read", async () => {
    const huge = Object.defineProperties(new File([], "big.bin"), {
      webkitRelativePath: { value: "t/big.bin" },
      size: { value: 10 * 2 ** 30 },
      arrayBuffer: { value: () => Promise.reject(new Error("it was read")) },
    });
    await expect(made({ kind: "folder", files: [huge] })).rejects.toThrow(
      "t has 10 GiB of files; code may have 1 GiB, and 100 MiB packed. Largest: big.bin (10 GiB).",
    );
  });

  it("without a file is refused", async () => {
    await expect(made(dropped("t", { empty: {} }))).rejects.toThrow("t holds no file to run.");
  });

  it("whose file changes while it is packed is refused by that file's name", async () => {
    const gone = Object.defineProperties(new File(["x"], "a.py"), {
      webkitRelativePath: { value: "t/a.py" },
      arrayBuffer: { value: () => Promise.reject(new DOMException("gone", "NotReadableError")) },
    });
    await expect(made({ kind: "folder", files: [gone] })).rejects.toThrow(
      "a.py changed or cannot be read. Choose the folder again.",
    );
  });

  it("that does not fit when it is packed is refused with its largest file", async () => {
    const noise = new Blob([crypto.getRandomValues(new Uint8Array(65_536))]);
    const source = await openGiven(picked({ "t/noise.bin": noise, "t/a.py": "" }), never, ignore);
    const [name, listed] = [source.name, source.entries];
    const entries = source.open(listed, "");
    await expect(
      pack({ name, listed, entries, signal: never, onPacked: ignore, maxBytes: 50_000 }),
    ).rejects.toThrow(/^t has more than 48.8 KiB when packed.* Largest: noise.bin \(64 KiB\)/);
  });

  it("is no longer packed once its page is left", async () => {
    const left = new AbortController();
    const source = await openGiven(picked({ "t/a": "1" }), left.signal, ignore);
    left.abort();
    await expect(prepare(source, "", left.signal, ignore)).rejects.toThrow(/abort/i);
  });
});

describe("a script", () => {
  it("lies alone in the working directory, also with 5 MB", async () => {
    const text = "x = 1\n".repeat(833_334);
    const found = await inside(await made(asFile("big.py", text)));
    expect(found["big.py 644"]).toBe(text);
  });
});

describe("a zip", () => {
  it("is packed again as a tar.gz, with its modes and without litter", async () => {
    const zip = await zipOf({ "lib/": "", "lib/a.py": "a", "__MACOSX/a": "x" }, { unixMode: 0o100755 });
    expect(await inside(await made(asFile("code.zip", zip)))).toEqual({
      "lib/ 755": "",
      "lib/a.py 755": "a",
    });
  });

  it("can be used from its one top folder on", async () => {
    const zip = await zipOf({
      "train/.musterignore": "*.ckpt",
      "train/train.py": "print(1)",
      "train/a.ckpt": "x",
    });
    const prepared = await made(asFile("code.zip", zip), "train/");
    expect(Object.keys(await inside(prepared))).toEqual([".musterignore 644", "train.py 644"]);
  });

  it.each([
    ["../evil.py", 'It holds "../evil.py", which leads out of the folder.'],
    ["/etc/passwd", 'It holds "/etc/passwd", which is an absolute path.'],
    ["a\\b.py", "with \\ between folders"],
  ])("with the path %s is refused", async (name, reason) => {
    // The writer refuses such names, too, so they are written over others of the same length.
    const zip = await zipOf({ ["n".repeat(name.length)]: "x" });
    const bytes = overwritten(zip, "n".repeat(name.length), name);
    await expect(made(asFile("code.zip", bytes))).rejects.toThrow(reason);
  });

  it("with a link is refused", async () => {
    const zip = await zipOf({ link: "/etc/passwd" }, { unixMode: 0o120777 });
    await expect(made(asFile("code.zip", zip))).rejects.toThrow("It holds link, which is a link.");
  });

  it("that is encrypted is refused", async () => {
    const zip = await zipOf({ "a.py": "x" }, { password: "secret", zipCrypto: true });
    await expect(made(asFile("code.zip", zip))).rejects.toThrow("It holds a.py, which is encrypted.");
  });

  it("that declares too much is refused before anything is unpacked", async () => {
    const zip = withSizes(await zipOf({ "a.bin": "x" }), 3 * 2 ** 30);
    await expect(made(asFile("bomb.zip", zip))).rejects.toThrow("bomb.zip has 3 GiB of files");
  });

  it("that unpacks to more than it declares is refused", async () => {
    const zip = withSizes(await zipOf({ "a.bin": "0".repeat(4 << 20) }), 10);
    await expect(made(asFile("bomb.zip", zip))).rejects.toThrow(/a\.bin (unpacks to more|in it is damaged)/);
  });

  it("that is cut off is refused", async () => {
    const zip = await zipOf({ "a.py": "x" });
    await expect(made(asFile("code.zip", zip.slice(0, 40)))).rejects.toThrow("It is no zip that can be read");
  });

  it("without a file is refused", async () => {
    await expect(made(asFile("code.zip", await zipOf({})))).rejects.toThrow("code.zip holds no file to run.");
  });
});

describe("a tar.gz", () => {
  const train = { header: { name: "./train/train.py", size: 1, mode: 0o755 }, body: "x" };

  it("is sent as it is", async () => {
    const data = await tarGzOf([{ header: { name: "./", size: 0, type: "directory" } }, train]);
    const prepared = await made(asFile("code.tar.gz", data));
    expect(new Uint8Array(await prepared.archive.arrayBuffer())).toEqual(data);
    expect(prepared.entries).toEqual([file("train/train.py")]);
  });

  it("is packed again where the contents of its one folder are used", async () => {
    const prepared = await made(asFile("code.tar.gz", await tarGzOf([train])), "train/");
    expect(await inside(prepared)).toEqual({ "train.py 755": "x" });
  });

  it.each([
    ["../evil", "leads out of the folder"],
    ["/etc/passwd", "is an absolute path"],
  ])("with the path %s is refused", async (name, reason) => {
    const data = await tarGzOf([{ header: { name, size: 1 }, body: "x" }]);
    await expect(made(asFile("code.tar.gz", data))).rejects.toThrow(reason);
  });

  it("with a link is refused", async () => {
    const data = await tarGzOf([{ header: { name: "l", size: 0, type: "symlink", linkname: "/etc" } }]);
    await expect(made(asFile("code.tar.gz", data))).rejects.toThrow(
      "It holds l, which is a link or a device.",
    );
  });

  it("that unpacks to too much is refused", async () => {
    const zeros = "0".repeat(4 << 20);
    const bomb = await tarGzOf([{ header: { name: "zeros", size: zeros.length }, body: zeros }]);
    await expect(openTarball(new File([bomb], "bomb.tar.gz"), never, 1 << 20)).rejects.toThrow(
      "bomb.tar.gz has more than 1 MiB when unpacked",
    );
  });

  it("that is none is refused, with how to make one", async () => {
    const broken = new Uint8Array([0x1f, 0x8b, 8, 0, 1, 2, 3]);
    await expect(made(asFile("code.tar.gz", broken))).rejects.toThrow("tar czf code.tar.gz -C FOLDER .");
    await expect(made(asFile("notes.txt", "hello"))).rejects.toThrow(
      "notes.txt is no folder, .zip, .py or .tar.gz.",
    );
  });
});

describe("a path", () => {
  it.each(["a/b.py", "./a//b.py", "a/./b.py"])("%s is a/b.py", (path) => {
    expect(safePath(path)).toBe("a/b.py");
  });

  it.each([
    ["a/../../b", "leads out"],
    ["C:\\a.py", "absolute"],
    ["a\u0000b", "cannot be shown"],
    ["a\u202eb", "cannot be shown"],
    ["d/".repeat(64) + "f", "deeper than 64 folders"],
    ["n".repeat(256), "a name of more than 255"],
    [`${"é".repeat(100)}/`.repeat(6), "more than 1,024 bytes"],
  ])("%j is refused", (path, reason) => {
    expect(() => safePath(path)).toThrow(reason);
  });
});

describe("a list of files", () => {
  it("is refused where it is too long", () => {
    const files = Array.from({ length: MAX_ENTRIES + 1 }, (_, index) => file(String(index)));
    expect(() => checkSizes("t", files)).toThrow("t holds more than 50,000 files");
    expect(() => checkSizes("t", files.slice(1))).not.toThrow();
  });

  it("counts what its headers take, as the server does", () => {
    const files = Array.from({ length: 2 }, (_, index) => file(String(index), 2 ** 29));
    expect(() => checkSizes("t", files)).toThrow("t has 1 GiB of files");
  });

  it("tells where all lies in one folder", () => {
    expect(topFolder([folder("train"), file("train/a.py")])).toBe("train");
    expect(topFolder([file("train/a.py"), file("trainer/b.py")])).toBeNull();
    expect(topFolder([file("train.py")])).toBeNull();
    expect(topFolder([folder("train")])).toBeNull();
  });

  it("is chosen below a folder, by the rules there", () => {
    const entries = [file("b/.venv/x"), file("b/a.py"), file("c.py")];
    expect(select(entries, "b/", ignoreFilter("*.ckpt"))).toEqual({ entries: [file("a.py")], ignored: 1 });
  });

  it.each([
    [["a.py"], "python3 a.py"],
    [["it's new.py"], "python3 'it'\\''s new.py'"],
    [["-c.py"], "python3 ./-c.py"],
    [["a.py", "train.py"], "python3 train.py"],
    [["a.py", "b.py"], null],
    [["lib/a.py", "README.md"], null],
  ])("%j proposes %s", (paths, command) => {
    expect(proposedCommand(paths.map((path) => file(path)))).toBe(command);
  });
});

function overwritten(data: Uint8Array<ArrayBuffer>, old: string, by: string): Uint8Array<ArrayBuffer> {
  const text = Buffer.from(data).toString("latin1").replaceAll(old, by);
  return new Uint8Array(Buffer.from(text, "latin1"));
}

/** Writes another unpacked size into the list at the end of a zip of one file. */
function withSizes(zip: Uint8Array<ArrayBuffer>, size: number): Uint8Array<ArrayBuffer> {
  const changed = zip.slice();
  const view = new DataView(changed.buffer);
  const central = Buffer.from(changed).indexOf("PK\u0001\u0002", 0, "latin1");
  view.setUint32(central + 24, size, true);
  return changed;
}
