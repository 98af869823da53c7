import { Observable } from "../api/connectivity";

export interface Toast {
  id: number;
  kind: "done" | "failed";
  text: string;
}

/** The short messages that lie at the page's edge now. */
export const toasts = new Observable<readonly Toast[]>([]);

const SHOWN_MS = { done: 4000, failed: 9000 };
let lastId = 0;

export function dismiss(id: number): void {
  toasts.set(toasts.get().filter((toast) => toast.id !== id));
}

export function toast(kind: Toast["kind"], text: string): void {
  lastId += 1;
  const id = lastId;
  toasts.set([...toasts.get().slice(-3), { id, kind, text }]);
  window.setTimeout(() => dismiss(id), SHOWN_MS[kind]);
}
