"""The graph of what waits for what, in a real browser."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.e2e.browser import NEEDS
from tests.e2e.demo import Demo

pytestmark = NEEDS


def test_a_chain_is_drawn_and_walked_by_keys(ada: Page, demo: Demo) -> None:
    with demo.client("ada") as client:
        first = client.submit({"name": "prepare", "gpus": 0, "command": "sleep 900"})["id"]
        trained = [
            client.submit({"name": f"train-{place}", "gpus": 0, "command": "true", "after": [first]})["id"]
            for place in range(3)
        ]
        last = client.submit(
            {"name": "report", "gpus": 0, "command": "true", "after": [f"{one}:any" for one in trained]}
        )
        try:
            ada.goto(f"{demo.url}/jobs/{last['id']}")
            expect(ada.get_by_role("heading", name="Waits for other jobs")).to_be_visible()
            graph = ada.get_by_role("region", name="Graph of what waits for what")
            nodes = graph.get_by_role("link")
            expect(nodes).to_have_count(5)
            expect(nodes.last).to_have_accessible_name(re.compile(rf"^Job {last['id']} report, waits; waits for job "))
            graph.focus()
            ada.keyboard.press("Tab")
            expect(nodes.first).to_be_focused()
            ada.keyboard.press("Enter")
            expect(ada.get_by_role("heading", name="prepare")).to_be_visible()
            client.cancel(first)
            ada.goto(f"{demo.url}/jobs/{last['id']}")
            expect(graph.get_by_role("link", name=re.compile("^Job .* train-0, cancelled"))).to_be_visible()
        finally:
            client.cancel(first)
