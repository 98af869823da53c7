"""A user who opens an array's page in Chromium: `python -m bench.visitor`, with its orders as JSON on standard input.

It signs in through the page and says so. Then, for each order, it opens the array's page as a new document, and prints
the milliseconds from the start of the navigation until the cells of members are painted.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass

from playwright.sync_api import Page

from bench.reader import Orders, signed_in

# The clock of a document begins with its navigation.
_WATCH = """() => {
  window.painted = null;
  const rendered = new MutationObserver(() => {
    if (document.querySelector("nav[aria-label='Members by index'] a") === null) return;
    rendered.disconnect();
    requestAnimationFrame(() => setTimeout(() => { window.painted = performance.now(); }));
  });
  rendered.observe(document, { childList: true, subtree: true });
}"""


@dataclass(frozen=True, slots=True)
class Visit:
    """One array whose page is to be opened."""

    array: int


def _open(page: Page, url: str, visit: Visit) -> float:
    page.goto(f"{url}/arrays/{visit.array}")
    page.wait_for_function("() => window.painted !== null")
    return float(page.evaluate("() => window.painted"))


def main() -> int:
    """Read the orders, sign in, and open the page of each array that is told."""
    orders = Orders(**json.loads(sys.stdin.readline()))
    with signed_in(orders) as page:
        page.add_init_script(f"({_WATCH})()")
        print(json.dumps({"signed_in": True}), flush=True)
        for line in sys.stdin:
            took_ms = _open(page, orders.url, Visit(**json.loads(line)))
            print(json.dumps({"took_ms": took_ms}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
