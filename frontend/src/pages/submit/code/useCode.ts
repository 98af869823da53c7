/** The code of a new job: read, packed and uploaded while the person fills in the rest. */
import { useEffect, useRef, useState } from "react";

import { isUploaded, upload } from "../../../api/client";
import { csrfToken } from "../../../api/http";
import { loadPart } from "../../../api/parts";
import { messageOf } from "../../../api/problem";
import { plural } from "../../../format/amount";
import { proposedCommand, topFolder, type Entry, type Source } from "./contents";
import type { Given } from "./prepare";

export interface Uploaded {
  name: string;
  note: string;
  sha256: string;
  /** Of the archive, in bytes. */
  size: number;
  entries: readonly Entry[];
  ignored: number;
  /** The folder of the source whose contents are used; "" for all of it. */
  base: string;
  /** The one folder in which everything lies, or null. */
  top: string | null;
}

export interface Code {
  /** What goes on now, as a sentence and as a share from 0 to 1 where it is known; null when nothing does. */
  busy: { doing: string; share: number | null } | null;
  uploaded: Uploaded | null;
  refusal: string;
  take: (given: Given) => void;
  /** Packs the contents of the one top folder instead. */
  useTopFolder: () => void;
  cancel: () => void;
  refuse: (reason: string) => void;
}

// The libraries for archives are only loaded for a person who has code to send.
const loadPreparing = () => loadPart(() => import("./prepare"));

/** `onUploaded` gets the archive's digest and the command that would run it, or null where that is not clear. */
export function useCode(onUploaded: (sha256: string, command: string | null) => void): Code {
  const [busy, setBusy] = useState<Code["busy"]>(null);
  const [uploaded, setUploaded] = useState<Uploaded | null>(null);
  const [refusal, setRefusal] = useState("");
  const source = useRef<Source | null>(null);
  const running = useRef<AbortController | null>(null);

  useEffect(() => () => running.current?.abort(), []);
  useEffect(() => {
    if (busy === null) return;
    const ask = (event: BeforeUnloadEvent) => event.preventDefault();
    window.addEventListener("beforeunload", ask);
    return () => window.removeEventListener("beforeunload", ask);
  }, [busy]);

  /** Runs one attempt; a later one, a cancel, and leaving the page end it, and then it says nothing more. */
  const run = async (
    open: (signal: AbortSignal, onFound: (files: number) => void) => Promise<Source>,
    base: string,
  ) => {
    running.current?.abort();
    const { signal } = (running.current = new AbortController());
    const say = (doing: string, share: number | null = null) => {
      if (!signal.aborted) setBusy({ doing, share });
    };
    setRefusal("");
    try {
      say("Reading");
      const read = await open(signal, (files) => say(`Reading, ${plural(files, "file")}`));
      say("Packing", 0);
      const { prepare } = await loadPreparing();
      const made = await prepare(read, base, signal, (packed, of) => say("Packing", packed / of));
      say("Uploading", 0);
      if (!(await isUploaded(made.sha256)))
        await upload(made.archive, made.sha256, csrfToken(), (share) => say("Uploading", share), signal);
      signal.throwIfAborted();
      source.current = read;
      setUploaded({
        name: read.name,
        note: read.note,
        sha256: made.sha256,
        size: made.archive.size,
        entries: made.entries,
        ignored: made.ignored,
        base,
        top: topFolder(made.entries),
      });
      onUploaded(made.sha256, proposedCommand(made.entries));
    } catch (error) {
      if (!signal.aborted) setRefusal(messageOf(error));
    } finally {
      if (!signal.aborted) setBusy(null);
    }
  };

  return {
    busy,
    uploaded,
    refusal,
    take: (given) =>
      void run(async (signal, onFound) => {
        const { openGiven } = await loadPreparing();
        return openGiven(given, signal, onFound);
      }, ""),
    useTopFolder: () => {
      const read = source.current;
      if (read === null || uploaded?.top == null) return;
      void run(() => Promise.resolve(read), `${uploaded.base}${uploaded.top}/`);
    },
    cancel: () => {
      running.current?.abort();
      setBusy(null);
    },
    refuse: setRefusal,
  };
}
