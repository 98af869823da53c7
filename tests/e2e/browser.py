"""Fixtures for tests of the pages: a cluster that runs jobs, a browser, and a signed-in user."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, StorageState, expect, sync_playwright

from muster_client.answers.jobs import Job
from tests.e2e.demo import ROOT, Demo, new_demo, running
from tests.kept import kept
from tests.needed import needs

# The one without windows takes half of the processor for the same page.
_CHROMIUMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, _CHROMIUMS)), None)
PATHS = (
    *("/", "/jobs", "/sweeps", "/submit", "/cluster", "/insights", "/predictions", "/settings"),
    *("/vcs", "/vcs/vision", "/tenants/vision"),
)
PATIENCE_MS = 30_000

NEEDS = [
    pytest.mark.timeout(300),
    needs("chromium", "there is no Chromium on this machine: apt-get install chromium", found=CHROMIUM is not None),
    needs("chromium", "the pages are not built: make setup", found=(ROOT / "frontend/dist/index.html").is_file()),
]


@contextmanager
def _demonstration() -> Iterator[Demo]:
    with new_demo() as demo, running(demo):
        yield demo


@pytest.fixture(scope="module")
def demo() -> Demo:
    """The demonstration, running."""
    return kept(_demonstration)


@contextmanager
def _chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # As root Chromium refuses to run with its own sandbox.
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        expect.set_options(timeout=PATIENCE_MS)
        yield playwright.chromium.launch(executable_path=CHROMIUM, args=options)


@pytest.fixture(scope="module")
def browser() -> Browser:
    """Chromium."""
    return kept(_chromium)


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A new browser profile; the test fails if a script of the page did."""
    with _new_page(browser) as page:
        yield page


@pytest.fixture(scope="module")
def adas_session(browser: Browser, demo: Demo) -> StorageState:
    """The browser's storage after Ada has signed in."""
    with _new_page(browser) as page:
        page.goto(demo.url)
        sign_in(page, demo, "ada")
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        return page.context.storage_state()


@pytest.fixture
def ada(browser: Browser, adas_session: StorageState) -> Iterator[Page]:
    """An empty page with Ada signed in. A test that ends the session ends it for all tests of the module."""
    with _new_page(browser, adas_session) as page:
        yield page


@contextmanager
def _new_page(browser: Browser, session: StorageState | None = None) -> Iterator[Page]:
    with browser.new_context(
        viewport={"width": 1280, "height": 900}, reduced_motion="reduce", storage_state=session
    ) as context:
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))
        yield page
        assert problems == []


def sign_in(page: Page, demo: Demo, name: str) -> None:
    """Fill in the form that is shown and send it."""
    page.get_by_label("User name").fill(name)
    page.get_by_label("Password", exact=True).fill(demo.password(name))
    page.get_by_role("button", name="Sign in").click()


def job_named(demo: Demo, owner: str, name: str) -> Job:
    """The newest job of that name."""
    with demo.client(owner) as client:
        return next(job for job in client.jobs()["results"] if job["name"] == name)


def submit(demo: Demo, **spec: object) -> Job:
    """A new job of ada's."""
    with demo.client("ada") as client:
        return client.submit({"gpus": 0, "cpus": 1, **spec})


def expect_state(page: Page, state: str) -> None:
    """Wait until the page says that its job is in this state."""
    expect(page.get_by_role("main").get_by_text(state, exact=True).first).to_be_visible()
