import { useSyncExternalStore } from "react";

// One clock for the page: every running time and every "2m ago" turns over in the same tick.
let now = Date.now();
let timer: number | undefined;
const watchers = new Set<() => void>();

function subscribe(watcher: () => void): () => void {
  watchers.add(watcher);
  timer ??= window.setInterval(() => {
    now = Date.now();
    for (const each of watchers) each();
  }, 1000);
  return () => {
    watchers.delete(watcher);
    if (watchers.size === 0) {
      window.clearInterval(timer);
      timer = undefined;
    }
  };
}

/** The time in milliseconds, anew every second. */
export const useNow = (): number => useSyncExternalStore(subscribe, () => now);
