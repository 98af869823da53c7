import { useEffect, useMemo, useSyncExternalStore } from "react";

import { logUrl } from "../../../api/client";
import { Observable, useObservable } from "../../../api/connectivity";
import { EventStream, type SseEvent } from "../../../api/sse";
import { LogBuffer } from "./buffer";

export type LogStatus = "connecting" | "streaming" | "reconnecting" | "ended" | "refused";

export interface LogEnd {
  state: string;
  exitCode: number | null;
}

function chunkFrom(event: SseEvent): { rank: number; text: string } | null {
  const body = JSON.parse(event.data) as { rank?: unknown; text?: unknown };
  if (typeof body.text !== "string") return null;
  return { rank: typeof body.rank === "number" ? body.rank : 0, text: body.text };
}

function endFrom(event: SseEvent): LogEnd {
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
  readonly #url: string;
  #stream: EventStream | null = null;

  constructor(url: string) {
    this.#url = url;
  }

  start(): void {
    this.buffer.clear();
    this.status.set("connecting");
    this.#stream = new EventStream(this.#url, {
      onOpen: () => this.status.set("streaming"),
      onBreak: () => this.status.set("reconnecting"),
      onRefused: () => this.status.set("refused"),
      onEvent: (event) => this.#take(event),
    });
  }

  readonly stop = (): void => {
    this.#stream?.close();
  };

  #take(event: SseEvent): void {
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

/** Follows the output of one attempt, or of one rank of it. */
export function useLogStream(jobId: number, attempt: number, rank: number | undefined) {
  const reading = useMemo(
    () => new LogReading(logUrl(jobId, { attempt, rank, follow: true })),
    [jobId, attempt, rank],
  );
  useEffect(() => {
    reading.start();
    return reading.stop;
  }, [reading]);
  const version = useSyncExternalStore(reading.buffer.subscribe, reading.buffer.version);
  return {
    buffer: reading.buffer,
    version,
    status: useObservable(reading.status),
    end: useObservable(reading.end),
  };
}
