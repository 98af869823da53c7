/** Server-sent events over fetch: unlike EventSource it can start at an event id and tells status codes apart. */
import { createParser, type EventSourceMessage } from "eventsource-parser";

/** How long to wait before the next try: doubles from half a second to 15 s, spread so that tabs do not march in step. */
export function backOffMs(failures: number, random: () => number = Math.random): number {
  const ceiling = Math.min(15_000, 500 * 2 ** Math.min(failures, 10));
  return Math.round(ceiling * (0.6 + 0.4 * random()));
}

export interface StreamHandlers {
  onOpen?: () => void;
  onEvent: (event: EventSourceMessage) => void;
  /** The connection broke and will be tried again. */
  onBreak?: () => void;
  /** The server refused for good: 4xx other than 408 and 429. */
  onRefused?: (status: number) => void;
}

/** A server that keeps a stream open says something at least this often; silence means the line is dead. */
const SILENCE_MS = 60_000;

/** One event stream that reconnects and goes on after the last event it saw, until it is closed. */
export class EventStream {
  readonly #url: string;
  readonly #handlers: StreamHandlers;
  #lastId: string | null;
  #abort: AbortController | null = null;
  #timer: number | undefined;
  #failures = 0;
  #closed = false;

  constructor(url: string, handlers: StreamHandlers, lastId: string | null = null) {
    this.#url = url;
    this.#handlers = handlers;
    this.#lastId = lastId;
    void this.#connect();
  }

  close(): void {
    this.#closed = true;
    window.clearTimeout(this.#timer);
    this.#abort?.abort();
  }

  get lastId(): string | null {
    return this.#lastId;
  }

  async #connect(): Promise<void> {
    const abort = new AbortController();
    this.#abort = abort;
    let retryMs: number | null = null;
    try {
      const headers: Record<string, string> = { Accept: "text/event-stream" };
      if (this.#lastId !== null) headers["Last-Event-ID"] = this.#lastId;
      const response = await fetch(this.#url, { headers, signal: abort.signal, cache: "no-store" });
      if (response.status >= 400 && response.status < 500 && ![408, 429].includes(response.status)) {
        this.#closed = true;
        this.#handlers.onRefused?.(response.status);
        return;
      }
      if (!response.ok || response.body === null) throw new Error(`HTTP ${response.status}`);
      this.#handlers.onOpen?.();
      retryMs = await this.#read(response.body, abort);
    } catch (error) {
      if (this.#isClosed()) return;
      if (!(error instanceof Error)) throw error;
      // Whatever broke it, the cure is the same: the next try goes on after the last event.
    }
    if (this.#isClosed()) return;
    this.#handlers.onBreak?.();
    const pause = Math.max(retryMs ?? 0, backOffMs(this.#failures));
    this.#failures += 1;
    this.#timer = window.setTimeout(() => void this.#connect(), pause);
  }

  async #read(body: ReadableStream<Uint8Array>, abort: AbortController): Promise<number | null> {
    const reader = body.getReader();
    const decoder = new TextDecoder();
    let retryMs: number | null = null;
    const parser = createParser({
      onEvent: (event) => {
        if (this.#isClosed()) return;
        this.#failures = 0;
        this.#lastId = event.id ?? this.#lastId;
        this.#handlers.onEvent(event);
      },
      onRetry: (ms) => (retryMs = ms),
    });
    let watchdog = 0;
    try {
      for (;;) {
        window.clearTimeout(watchdog);
        watchdog = window.setTimeout(() => abort.abort(), SILENCE_MS);
        const { done, value } = await reader.read();
        if (done || this.#isClosed()) return retryMs;
        parser.feed(decoder.decode(value, { stream: true }));
      }
    } finally {
      window.clearTimeout(watchdog);
    }
  }

  /** Asked through a method because an event handler may close the stream while we are inside a loop. */
  #isClosed(): boolean {
    return this.#closed;
  }
}
