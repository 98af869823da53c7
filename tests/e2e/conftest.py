from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from playwright.sync_api import Error, Page

from tests.e2e.browser import ada, adas_session, browser, demo, page
from tests.faults.cluster import cluster

__all__ = ["ada", "adas_session", "browser", "cluster", "demo", "page"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Adds to the report of a failure what stood on the page, and what its scripts and requests came to."""
    report = yield
    if call.when == "call" and report.failed:
        pages = (one for one in getattr(item, "funcargs", {}).values() if isinstance(one, Page))
        report.sections.extend(("page", told(one)) for one in pages)
    return report


def told(page: Page) -> str:
    """Address, text, console and requests of a page, as far as it still answers."""
    try:
        requests = [(one, one.existing_response) for one in page.requests()]
        return "\n".join(
            [
                page.url,
                page.locator("body").inner_text(timeout=2000),
                *(f"console: {one.type}: {one.text}" for one in page.console_messages()),
                *(f"{one.method} {one.url} {answer.status if answer else one.failure}" for one, answer in requests),
            ]
        )
    except Error as error:
        return f"the page does not answer: {error}"
