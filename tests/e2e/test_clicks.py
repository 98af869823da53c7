"""Clicks of the errands that people come for when something has failed. Typing is not counted."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.e2e.browser import NEEDS, sign_in, submit
from tests.e2e.demo import Demo

pytestmark = NEEDS

MAX_CLICKS = 3
COUNT_CLICKS = """
window.clicksByHand = 0;
addEventListener("click", (event) => {
  if (event.isTrusted && event.detail > 0) window.clicksByHand += 1;
}, true);
"""


def clicks(page: Page) -> int:
    """Clicks by the pointer since the page was loaded."""
    return int(page.evaluate("window.clicksByHand"))


def test_a_failed_job_is_explained_and_cloned_with_one_change(ada: Page, demo: Demo) -> None:
    job = submit(demo, name="broken", command="python3 -c 'import nope'", screening="never")
    with demo.client("ada") as client:
        while client.job(job["id"])["state"] != "failed":
            client.pause()
    ada.add_init_script(COUNT_CLICKS)
    ada.goto(f"{demo.url}/jobs")
    row = ada.get_by_role("row").filter(has_text="broken")
    expect(row.get_by_text("Import error")).to_be_visible()
    row.get_by_role("link", name="broken").click()
    cause = ada.get_by_role("region", name="Why did it fail?")
    expect(cause.get_by_text("No module named 'nope'")).to_be_visible()
    ada.get_by_role("link", name="Clone").click()
    ada.get_by_label("Command", exact=True).fill("python3 -c 'import json'")
    ada.get_by_role("button", name="Submit job").click()
    ada.wait_for_url(re.compile(rf"/jobs/(?!{job['id']}$)\d+$"))
    assert clicks(ada) <= MAX_CLICKS


def test_a_node_is_drained_from_the_cluster_page(page: Page, demo: Demo) -> None:
    page.add_init_script(COUNT_CLICKS)
    page.goto(f"{demo.url}/cluster")
    sign_in(page, demo, "otto")
    before = clicks(page)
    page.get_by_role("button", name="Details of gpu02").click()
    page.get_by_role("button", name="Drain…").click()
    question = page.get_by_role("dialog", name="Drain gpu02?")
    expect(question.get_by_label("Reason")).to_be_focused()
    page.keyboard.type("fan replacement")
    question.get_by_role("button", name="Drain").click()
    drawer = page.get_by_role("dialog", name="gpu02", exact=True)
    expect(drawer.get_by_text("fan replacement", exact=True)).to_be_visible()
    assert clicks(page) - before <= MAX_CLICKS
    drawer.get_by_role("button", name="Resume").click()  # other tests have this demonstration after it
    expect(drawer.get_by_text("fan replacement", exact=True)).to_have_count(0)
