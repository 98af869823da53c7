import { useSyncExternalStore } from "react";

/** A value that React components can watch, changed from outside of React. */
export class Observable<T> {
  #value: T;
  readonly #watchers = new Set<() => void>();

  constructor(value: T) {
    this.#value = value;
  }

  readonly get = (): T => this.#value;

  readonly set = (value: T): void => {
    if (Object.is(value, this.#value)) return;
    this.#value = value;
    for (const watcher of this.#watchers) watcher();
  };

  readonly subscribe = (watcher: () => void): (() => void) => {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  };
}

export function useObservable<T>(observable: Observable<T>): T {
  return useSyncExternalStore(observable.subscribe, observable.get);
}

/** Whether the last request got an answer from Muster itself. */
export const reachable = new Observable(true);

export type StreamStatus = "connecting" | "live" | "reconnecting" | "paused";

/** Where the stream of changes stands. */
export const streamStatus = new Observable<StreamStatus>("connecting");
