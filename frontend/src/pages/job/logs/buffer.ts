import { plainText } from "./ansi";

/** One line of a job's output. */
export interface LogLine {
  /** Counted from 1 over everything that was received. */
  readonly number: number;
  readonly rank: number;
  /** As it came, with colour sequences. */
  readonly raw: string;
  /** As it reads. */
  readonly text: string;
}

interface Open {
  number: number;
  raw: string;
}

/** A page keeps this many lines; the whole log is one click away as a download. */
export const MAX_LINES = 100_000;
/** A line without an end is cut here, or a progress bar of a day would become one line of a gigabyte. */
const MAX_LINE_CHARS = 8192;

/** What a terminal shows of a line in which a carriage return starts it over. */
function overwritten(raw: string): string {
  const body = raw.replace(/\r+$/, "");
  const last = body.lastIndexOf("\r");
  return last < 0 ? raw : raw.slice(last + 1);
}

/** The lines of an attempt as they arrive: text cut anywhere, from several ranks in turn. */
export class LogBuffer {
  #lines: LogLine[] = [];
  #shown: readonly LogLine[] = [];
  #shownDropped = 0;
  #dropped = 0;
  #count = 0;
  #version = 0;
  readonly #open = new Map<number, Open>();
  readonly #watchers = new Set<() => void>();
  #announcing = false;
  #inside = false;
  /** The ranks whose first whole line was seen. */
  readonly #begun = new Set<number>();

  /** The lines as of the last announcement: an array that is replaced and never changed. */
  get lines(): readonly LogLine[] {
    return this.#shown;
  }

  /** How many of the oldest lines were let go, as of the last announcement. */
  get dropped(): number {
    return this.#shownDropped;
  }

  readonly version = (): number => this.#version;

  readonly subscribe = (watcher: () => void): (() => void) => {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  };

  append(rank: number, text: string): void {
    let start = 0;
    if (this.#inside && !this.#begun.has(rank)) {
      const end = text.indexOf("\n");
      if (end < 0) return;
      this.#begun.add(rank);
      start = end + 1;
    }
    while (start < text.length) {
      const end = text.indexOf("\n", start);
      const stop = Math.min(end < 0 ? text.length : end, start + MAX_LINE_CHARS);
      const complete = stop === end;
      this.#extend(rank, text.slice(start, stop), complete);
      start = complete ? stop + 1 : stop;
    }
    this.#announce();
  }

  /** Starts over. A reading that begins inside the log begins inside a line: its rest is left out. */
  clear(inside = false): void {
    this.#inside = inside;
    this.#begun.clear();
    this.#lines = [];
    this.#dropped = 0;
    this.#count = 0;
    this.#open.clear();
    this.#announce();
  }

  #extend(rank: number, part: string, complete: boolean): void {
    const open = this.#open.get(rank);
    const raw = overwritten((open?.raw ?? "") + part);
    const shown = raw.replace(/\r+$/, "");
    const line = { rank, raw: shown, text: plainText(shown) };
    if (open === undefined) {
      this.#count += 1;
      this.#lines.push({ ...line, number: this.#count });
      if (this.#lines.length > MAX_LINES + MAX_LINES / 10) this.#trim();
    } else {
      const index = open.number - this.#dropped - 1;
      // The line may have been let go already, when other ranks wrote a great deal since it began.
      if (index >= 0) this.#lines[index] = { ...line, number: open.number };
    }
    if (complete || raw.length >= MAX_LINE_CHARS) this.#open.delete(rank);
    else this.#open.set(rank, { number: open?.number ?? this.#count, raw });
  }

  #trim(): void {
    const excess = this.#lines.length - MAX_LINES;
    this.#lines = this.#lines.slice(excess);
    this.#dropped += excess;
  }

  /** Tells watchers at most once a frame, however fast the text comes. */
  #announce(): void {
    if (this.#announcing) return;
    this.#announcing = true;
    window.requestAnimationFrame(() => {
      this.#announcing = false;
      this.#shown = this.#lines.slice();
      this.#shownDropped = this.#dropped;
      this.#version += 1;
      for (const watcher of this.#watchers) watcher();
    });
  }
}
