"""A user who submits a folder in Chromium: `python -m bench.submitter`, with its orders as JSON on standard input.

It signs in through the page and says so. Then, for each order to submit, it chooses a folder on the page *Submit*,
presses the button when the dry run has accepted the spec, and prints the milliseconds from the press until the first
line of the log is painted on the job's page.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Page, expect

from bench.reader import PATIENCE_MS, Orders, signed_in

FILES = {"main.py": "from parts.words import LINE\n\nprint(LINE, flush=True)\n", "parts/words.py": 'LINE = "line 1"\n'}
# The page stays the same document from the press to the log, so that its own clock measures both.
_WATCH = """() => {
  window.pressed = window.shown = null;
  addEventListener("click", event => {
    if (event.isTrusted && window.pressed === null) window.pressed = event.timeStamp;
  }, true);
  const rendered = new MutationObserver(() => {
    if (!document.querySelector("[data-testid=log-view]")?.textContent.includes("line 1")) return;
    rendered.disconnect();
    requestAnimationFrame(() => setTimeout(() => { window.shown = performance.now(); }));
  });
  rendered.observe(document.body, { childList: true, subtree: true, characterData: true });
}"""


@dataclass(frozen=True, slots=True)
class Submission:
    """One folder that is to be submitted."""

    name: str


def _submit(page: Page, url: str, folder: Path, submission: Submission) -> float:
    page.goto(f"{url}/submit")
    page.get_by_label("Code folder").set_input_files(folder)
    page.get_by_label("Name", exact=True).fill(submission.name)
    page.get_by_label("Command", exact=True).fill("python3 main.py")
    page.get_by_label("GPUs", exact=True).fill("1")
    button = page.get_by_role("button", name="Submit job")
    expect(page.get_by_text("The spec is valid: 1 GPU in total")).to_be_visible()
    expect(button).to_be_enabled()
    page.evaluate(_WATCH)
    button.click()
    page.wait_for_function("() => window.shown !== null")
    return float(page.evaluate("() => window.shown - window.pressed"))


def main() -> int:
    """Read the orders, sign in, and submit a folder for each line that is told."""
    orders = Orders(**json.loads(sys.stdin.readline()))
    expect.set_options(timeout=PATIENCE_MS)
    with tempfile.TemporaryDirectory(prefix="muster-bench-code-") as name, signed_in(orders) as page:
        folder = Path(name, "code")
        for path, text in FILES.items():
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        print(json.dumps({"signed_in": True}), flush=True)
        for line in sys.stdin:
            took_ms = _submit(page, orders.url, folder, Submission(**json.loads(line)))
            print(json.dumps({"took_ms": took_ms}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
