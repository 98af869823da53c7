import { cleanup, configure } from "@testing-library/react";
import { afterEach } from "vitest";

afterEach(cleanup);
// A part of a page that is loaded when it is wanted takes more than the default of a second on a busy machine.
configure({ asyncUtilTimeout: 5000 });

// jsdom knows neither of these, and Mantine asks for both when it mounts.
globalThis.matchMedia = (query: string) =>
  ({
    matches: false,
    media: query,
    onchange: null,
    addEventListener: () => undefined,
    removeEventListener: () => undefined,
    dispatchEvent: () => false,
  }) as unknown as MediaQueryList;

class NoResizeObserver implements ResizeObserver {
  observe(): void {
    /* jsdom has no layout, so nothing is ever resized */
  }
  unobserve(): void {
    /* see observe */
  }
  disconnect(): void {
    /* see observe */
  }
}
globalThis.ResizeObserver = NoResizeObserver;

// A text area that grows with its text measures it again when a font arrives.
if ("document" in globalThis) Object.defineProperty(document, "fonts", { value: new EventTarget() });
// Without a layout there is nothing to scroll, and a list of options scrolls to its first.
if ("Element" in globalThis) Element.prototype.scrollIntoView = () => undefined;
