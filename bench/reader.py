"""A reader of logs in Chromium: `python -m bench.reader`, with its orders as JSON on standard input.

It signs in through the page and says so. Then, for each job in its orders, it opens the job's page and notes when lines
of the log come into view, until there are enough; it prints the result as one line on standard output.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from playwright.sync_api import Page, sync_playwright

PATIENCE_MS = 60_000
_LOOK_EVERY_MS = 500
_SIZE = {"width": 1280, "height": 900}

# A line is shown when Chromium itself finds it in view: after the layout of the frame in which it is painted. The time
# is that at which the page hears of it, which is after that frame.
_WATCH = """view => {
  const seen = new Set();
  window.shown = [];
  const visible = new IntersectionObserver(entries => {
    const now = Date.now() / 1000;
    for (const entry of entries) {
      const [, printed] = /at ([0-9]+[.][0-9]{6})$/.exec(entry.target.textContent) ?? [];
      if (!entry.isIntersecting || printed === undefined || seen.has(printed)) continue;
      seen.add(printed);
      window.shown.push([Number(printed), now]);
    }
  }, { root: view });
  new MutationObserver(records => {
    for (const record of records)
      for (const node of record.addedNodes)
        if (node instanceof Element) visible.observe(node);
  }).observe(view, { childList: true, subtree: true });
  return Date.now() / 1000;
}"""


@dataclass(frozen=True, slots=True)
class Orders:
    """Orders to a reader: the platform's address, the credentials and the browser."""

    url: str
    username: str
    password: str
    chromium: str
    """The path of the program."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One log that is to be read: of a job that prints times."""

    job: int
    lines: int
    """The number of lines to watch."""


def watched(shown: list[tuple[float, float]], begun: float) -> list[tuple[float, float]]:
    """The pairs of times at which a line was printed and shown, for lines printed after `begun`, in order."""
    return sorted((printed, at) for printed, at in shown if printed > begun)


@contextmanager
def signed_in(orders: Orders) -> Iterator[Page]:
    """A page in Chromium that shows the overview to the user."""
    with sync_playwright() as playwright:
        # As root Chromium refuses to run with its own sandbox.
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        with playwright.chromium.launch(executable_path=orders.chromium, args=options) as browser:
            page = browser.new_page(viewport=_SIZE)
            page.set_default_timeout(PATIENCE_MS)
            page.goto(orders.url)
            page.get_by_label("User name").fill(orders.username)
            page.get_by_label("Password", exact=True).fill(orders.password)
            page.get_by_role("button", name="Sign in").click()
            page.get_by_role("heading", name="Overview").wait_for()
            yield page


def _read(page: Page, url: str, reading: Reading) -> list[tuple[float, float]]:
    page.goto(f"{url}/jobs/{reading.job}")
    page.locator("[data-status=streaming]").wait_for()
    begun = page.get_by_test_id("log-view").evaluate(_WATCH)
    page.wait_for_function(
        "([begun, lines]) => window.shown.filter(([printed]) => printed > begun).length >= lines",
        arg=[begun, reading.lines],
        polling=_LOOK_EVERY_MS,
    )
    return watched(page.evaluate("window.shown"), begun)


def main() -> int:
    """Read the orders, sign in, and read every log that is told."""
    orders = Orders(**json.loads(sys.stdin.readline()))
    with signed_in(orders) as page:
        print(json.dumps({"signed_in": True}), flush=True)
        for line in sys.stdin:
            print(json.dumps({"shown": _read(page, orders.url, Reading(**json.loads(line)))}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
