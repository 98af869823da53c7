/** The one stream of changes of the application, and what each message makes stale. */
import type { Query, QueryClient } from "@tanstack/react-query";

import { streamUrl } from "./client";
import { streamStatus } from "./connectivity";
import { EventStream } from "./sse";

const TOPICS = ["jobs", "nodes"] as const;

/** What is kept fresh by the stream. */
const LIVE_KEYS = [["job"], ["jobs"], ["sweeps"], ["arrays"], ["vcs"], ["pools"], ["nodes"]] as const;

/** A hidden page gives its connection back after this long: browsers allow six to one server, for all tabs together. */
const HIDDEN_PAUSE_MS = 30_000;

export interface Change {
  topic: string;
  kind: string;
  job: number | null;
}

/** What one message of the stream is about, or null when it is not for us. */
export function changeFrom(data: string): Change | null {
  let body: unknown;
  try {
    body = JSON.parse(data);
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
  if (typeof body !== "object" || body === null) return null;
  const { topic, kind, job } = body as { topic?: unknown; kind?: unknown; job?: unknown };
  if (typeof topic !== "string") return null;
  const named = /^job:(\d+)$/.exec(topic)?.[1];
  const id = typeof job === "number" ? job : Number(named ?? job);
  return {
    topic,
    kind: typeof kind === "string" ? kind : "",
    job: Number.isInteger(id) && id > 0 ? id : null,
  };
}

/** Runs a task at once, and then at most every `everyMs` however often it is asked for; the last ask is never lost. */
export class Throttle {
  #timer: number | undefined;
  #again = false;
  readonly #task: () => void;
  readonly #everyMs: number;

  constructor(task: () => void, everyMs: number) {
    this.#task = task;
    this.#everyMs = everyMs;
  }

  ask(): void {
    if (this.#timer !== undefined) {
      this.#again = true;
      return;
    }
    this.#task();
    this.#timer = window.setTimeout(() => {
      this.#timer = undefined;
      if (this.#again) {
        this.#again = false;
        this.ask();
      }
    }, this.#everyMs);
  }

  stop(): void {
    window.clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#again = false;
  }
}

const GROUPS_EVERY_MS = 2000;

/** False of a list that was read a short time ago in many pages: each page is a request, and all are asked for again. */
function isDue({ state }: Query): boolean {
  const pages = (state.data as { pages?: unknown[] } | undefined)?.pages?.length ?? 1;
  return pages === 1 || Date.now() - state.dataUpdatedAt >= pages * GROUPS_EVERY_MS;
}

/** Keeps what the pages show fresh until the returned function is called. */
export function followChanges(client: QueryClient, onSignedOut: () => void): () => void {
  const refresh = (key: readonly unknown[]) => void client.invalidateQueries({ queryKey: key });
  const lists = new Throttle(() => refresh(["jobs"]), 1000);
  const groups = new Throttle(() => {
    refresh(["sweeps"]);
    void client.invalidateQueries({ queryKey: ["arrays"], predicate: isDue });
  }, GROUPS_EVERY_MS);
  const usage = new Throttle(() => {
    refresh(["vcs"]);
    refresh(["pools"]);
  }, 2000);
  const nodes = new Throttle(() => refresh(["nodes"]), 2000);
  const jobs = new Map<number, Throttle>();

  let stream: EventStream | null = null;
  let hiddenTimer: number | undefined;
  let wasLive = false;

  const onChange = (change: Change) => {
    if (change.topic === "stream") {
      // Said once the server listens for us, and when it had to leave something out: whatever was read before
      // may have changed without our being told.
      for (const key of LIVE_KEYS) refresh(key);
    } else if (change.topic.startsWith("job")) {
      if (change.job !== null) {
        const id = change.job;
        // Only jobs that a page has loaded are in the cache; for the others there is nothing to refresh.
        if (client.getQueryCache().find({ queryKey: ["job", id, "self"] }) !== undefined) {
          let throttle = jobs.get(id);
          if (throttle === undefined) {
            throttle = new Throttle(() => refresh(["job", id]), 250);
            jobs.set(id, throttle);
          }
          throttle.ask();
        }
      }
      lists.ask();
      groups.ask();
      usage.ask();
      nodes.ask();
    } else if (change.topic.startsWith("node")) {
      nodes.ask();
      usage.ask();
    }
  };

  const open = () => {
    if (stream !== null) return;
    streamStatus.set(wasLive ? "reconnecting" : "connecting");
    stream = new EventStream(streamUrl(TOPICS), {
      onOpen: () => {
        streamStatus.set("live");
        wasLive = true;
      },
      onEvent: (event) => {
        const change = changeFrom(event.data);
        if (change !== null) onChange(change);
      },
      onBreak: () => streamStatus.set("reconnecting"),
      onRefused: (status) => {
        streamStatus.set("reconnecting");
        if (status === 401) onSignedOut();
      },
    });
  };

  const close = () => {
    stream?.close();
    stream = null;
  };

  const onVisibility = () => {
    window.clearTimeout(hiddenTimer);
    if (document.hidden) {
      hiddenTimer = window.setTimeout(() => {
        close();
        streamStatus.set("paused");
      }, HIDDEN_PAUSE_MS);
    } else {
      open();
    }
  };

  document.addEventListener("visibilitychange", onVisibility);
  open();
  return () => {
    document.removeEventListener("visibilitychange", onVisibility);
    window.clearTimeout(hiddenTimer);
    close();
    for (const throttle of [lists, groups, usage, nodes, ...jobs.values()]) throttle.stop();
  };
}
