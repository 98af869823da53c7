"""Faults that axe-core finds on a page in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, Literal

from playwright.sync_api import Page, expect

from tests.e2e.demo import ROOT
from tests.needed import needs

_AXE = ROOT / "frontend/node_modules/axe-core/axe.min.js"
WIDTHS = (1280, 390)
_SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
_ONLY_COLOURS = {"runOnly": ["color-contrast"]}  # nothing else is another in the dark
# Else colours would be looked at while they change from one scheme to the other.
_NO_TRANSITIONS = """
const sheet = new CSSStyleSheet();
sheet.replaceSync("*, *::before, *::after { transition: none !important; }");
document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
"""

NEEDS_AXE = needs("chromium", "axe-core is not installed: make setup", found=_AXE.is_file())


def serious_faults(page: Page, until_drawn: Callable[[int], None]) -> list[tuple[Any, ...]]:
    """The serious faults of the open page, wide and narrow, light and dark, once it is drawn in a width."""
    page.evaluate(_NO_TRANSITIONS)
    page.evaluate(_AXE.read_text())
    found = []
    for width, scheme in product(WIDTHS, _SCHEMES):
        page.set_viewport_size({"width": width, "height": 844})
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        expect(page.locator("html")).to_have_attribute("data-mantine-color-scheme", scheme)
        until_drawn(width)
        options = {"resultTypes": ["violations"]} | ({} if scheme == "light" else _ONLY_COLOURS)
        answer = page.evaluate("options => axe.run(document, options)", options)
        found += [
            (page.url, width, scheme, violation["id"], node["html"][:200], node["failureSummary"])
            for violation in answer["violations"]
            if violation["impact"] in {"serious", "critical"}
            for node in violation["nodes"]
        ]
    return found


def expect_no_wider(page: Page, width: int) -> None:
    """Fail if the page has to be scrolled to the side."""
    assert page.evaluate("document.documentElement.scrollWidth") <= width, page.url
