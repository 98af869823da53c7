"""The page of a virtual cluster's queue in a real browser: order, hold and bump, and editing a waiting job."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Page, expect

from tests.e2e.accessible import NEEDS_AXE, expect_no_wider, serious_faults
from tests.e2e.browser import NEEDS, sign_in
from tests.e2e.demo import Demo

pytestmark = NEEDS


@contextmanager
def waiting(demo: Demo, owner: str, *names: str) -> Iterator[dict[str, int]]:
    """Jobs that wait, because others of their owner have the whole quota; by name."""
    with demo.client(owner) as client:
        blockers = [client.submit({"name": "blocker", "gpus": 1, "command": "sleep 900"})["id"] for _ in range(4)]
        jobs = {name: client.submit({"name": name, "gpus": 1, "command": "sleep 900"})["id"] for name in names}
        try:
            yield jobs
        finally:
            for job_id in (*jobs.values(), *blockers):
                client.cancel(job_id)


def rows_of(page: Page, names: list[str]) -> None:
    """Wait until these jobs are the rows of the queue, in this order."""
    table = page.get_by_role("table", name="Waiting jobs")
    expect(table.get_by_role("link", name=re.compile("^queue-"))).to_have_text(names)


def test_own_jobs_are_put_in_order_by_keys_and_held(ada: Page, demo: Demo) -> None:
    with waiting(demo, "ada", "queue-a", "queue-b", "queue-c"):
        ada.goto(f"{demo.url}/vcs/vision/queue")
        rows_of(ada, ["queue-a", "queue-b", "queue-c"])
        ada.get_by_role("button", name="Move queue-c up").focus()
        ada.keyboard.press("Enter")
        rows_of(ada, ["queue-a", "queue-c", "queue-b"])
        ada.keyboard.press("Enter")
        rows_of(ada, ["queue-c", "queue-a", "queue-b"])
        expect(ada.get_by_role("button", name="Move queue-c up")).to_be_focused()
        ada.get_by_role("button", name="Hold queue-c").click()
        expect(ada.get_by_text("ada holds it back")).to_be_visible()
        rows_of(ada, ["queue-a", "queue-b", "queue-c"])
        ada.get_by_role("button", name="Release queue-c").click()
        rows_of(ada, ["queue-c", "queue-a", "queue-b"])
        ada.reload()
        rows_of(ada, ["queue-c", "queue-a", "queue-b"])


def test_a_manager_bumps_a_job_and_takes_it_back(page: Page, demo: Demo) -> None:
    with waiting(demo, "grace", "queue-d", "queue-e"):
        page.goto(f"{demo.url}/vcs/nlp/queue")
        sign_in(page, demo, "grace")
        rows_of(page, ["queue-d", "queue-e"])
        page.get_by_role("button", name="Bump queue-e", exact=True).click()
        rows_of(page, ["queue-e", "queue-d"])
        expect(page.get_by_text("Bumped", exact=True)).to_be_visible()
        page.get_by_role("button", name="Unbump queue-e").click()
        rows_of(page, ["queue-d", "queue-e"])


def test_a_waiting_job_is_edited_on_its_page(ada: Page, demo: Demo) -> None:
    with waiting(demo, "ada", "queue-f") as jobs:
        ada.goto(f"{demo.url}/jobs/{jobs['queue-f']}")
        ada.get_by_role("button", name="Edit").click()
        dialog = ada.get_by_role("dialog")
        dialog.get_by_label("Priority").select_option("low")
        dialog.get_by_label("Time limit").fill("nonsense")
        dialog.get_by_label("Tags").fill("project=seg")
        dialog.get_by_role("button", name="Save").click()
        expect(dialog.get_by_text("is not a duration")).to_be_visible()
        dialog.get_by_label("Time limit").fill("2h")
        dialog.get_by_role("button", name="Save").click()
        expect(dialog).to_be_hidden()
        main = ada.get_by_role("main")
        expect(main.get_by_text("Low", exact=True)).to_be_visible()
        expect(main.get_by_role("link", name="seg")).to_be_visible()
        main.get_by_role("button", name="Hold").click()
        expect(main.get_by_role("heading", name="Held until it is released")).to_be_visible()


@NEEDS_AXE
def test_axe_finds_nothing_serious_in_a_queue(ada: Page, demo: Demo) -> None:
    def drawn(width: int) -> None:
        rows_of(ada, ["queue-g", "queue-h"])
        expect_no_wider(ada, width)

    with waiting(demo, "ada", "queue-g", "queue-h") as jobs:
        with demo.client("ada") as client:
            client.hold(jobs["queue-h"])
        ada.goto(f"{demo.url}/vcs/vision/queue")
        assert serious_faults(ada, drawn) == []
