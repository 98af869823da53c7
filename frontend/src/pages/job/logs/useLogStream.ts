import type { EventSourceMessage } from "eventsource-parser";
import { useEffect, useMemo, useRef, useSyncExternalStore } from "react";

import { logUrl } from "../../../api/client";
import { Observable, useObservable } from "../../../api/connectivity";
import { EventStream } from "../../../api/sse";
import { LogBuffer } from "./buffer";

/** Of a log larger than this, only the end is read at first. */
const LARGE_BYTES = 4 * 1024 * 1024;
const TAIL_BYTES = 1024 * 1024;

export type LogStatus = "connecting" | "streaming" | "reconnecting" | "ended" | "refused";

export interface LogEnd {
  state: string;
  exitCode: number | null;
}

function chunkFrom(event: EventSourceMessage): { rank: number; text: string } | null {
  const body = JSON.parse(event.data) as { rank?: unknown; text?: unknown };
  if (typeof body.text !== "string") return null;
  return { rank: typeof body.rank === "number" ? body.rank : 0, text: body.text };
}

function endFrom(event: EventSourceMessage): LogEnd {
  const body = JSON.parse(event.data) as { state?: unknown; exit_code?: unknown };
  return {
    state: typeof body.state === "string" ? body.state : "",
    exitCode: typeof body.exit_code === "number" ? body.exit_code : null,
  };
}

/** The reading of one log, from its beginning to its end. */
class LogReading {
  readonly buffer = new LogBuffer();
  readonly status = new Observable<LogStatus>("connecting");
  readonly end = new Observable<LogEnd | null>(null);
  /** How many bytes at the log's start were left out. */
  readonly skipped = new Observable(0);
  readonly #jobId: number;
  readonly #attempt: number;
  readonly #rank: number | undefined;
  #stream: EventStream | null = null;

  constructor(jobId: number, attempt: number, rank: number | undefined) {
    this.#jobId = jobId;
    this.#attempt = attempt;
    this.#rank = rank;
  }

  start(offset: number): void {
    this.stop();
    this.buffer.clear(offset > 0);
    this.skipped.set(offset);
    this.end.set(null);
    this.status.set("connecting");
    const address = { attempt: this.#attempt, rank: this.#rank, follow: 1 as const };
    const url = logUrl(this.#jobId, offset > 0 ? { ...address, offset } : address);
    this.#stream = new EventStream(url, {
      onOpen: () => this.status.set("streaming"),
      onBreak: () => this.status.set("reconnecting"),
      onRefused: () => this.status.set("refused"),
      onEvent: (event) => this.#take(event),
    });
  }

  readonly stop = (): void => {
    this.#stream?.close();
  };

  #take(event: EventSourceMessage): void {
    if (event.event === "log") {
      const chunk = chunkFrom(event);
      if (chunk !== null) this.buffer.append(chunk.rank, chunk.text);
    } else if (event.event === "end") {
      this.end.set(endFrom(event));
      this.status.set("ended");
      this.stop();
    }
  }
}

/** Where to begin in a log of this size. */
export function startOf(size: number): number {
  return size > LARGE_BYTES ? size - TAIL_BYTES : 0;
}

/** Follows the output of one attempt, or of one rank of it; of a large log only the end, unless all is asked for. */
export function useLogStream(jobId: number, attempt: number, rank: number | undefined, size: number) {
  const reading = useMemo(() => new LogReading(jobId, attempt, rank), [jobId, attempt, rank]);
  // The size as it is when the reading begins: it grows, and must not begin again for that.
  const latestSize = useRef(size);
  useEffect(() => {
    latestSize.current = size;
  });
  useEffect(() => {
    reading.start(startOf(latestSize.current));
    return reading.stop;
  }, [reading]);
  const version = useSyncExternalStore(reading.buffer.subscribe, reading.buffer.version);
  return {
    buffer: reading.buffer,
    version,
    status: useObservable(reading.status),
    end: useObservable(reading.end),
    skipped: useObservable(reading.skipped),
    readAll: () => reading.start(0),
  };
}
