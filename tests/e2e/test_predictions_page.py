"""Forecasts in a real browser: before a submission, while the job waits, and beside its start."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.e2e.browser import NEEDS, job_named
from tests.e2e.demo import Demo, shell_of

pytestmark = NEEDS

FORECAST = re.compile(r"likely within 10 minutes \(\d+ %\)|in about .+ \(p50\), within .+ with 90 %", re.IGNORECASE)
# What the worker does within a minute.
RUN_FORWARD = """
from muster.fleet.models import Pool
from muster.predictions.forward.runs import run_pool
print(run_pool(Pool.objects.get(name="main")).error)
"""


def test_a_forecast_before_submission_is_held_against_the_start(ada: Page, demo: Demo) -> None:
    with demo.client("ada") as client:
        blockers = [
            client.submit({"name": "blocker", "gpus": 1, "command": "sleep 900", "time": "20m"})["id"] for _ in range(5)
        ]
    with shell_of(demo) as shell:
        assert shell.run(RUN_FORWARD).strip() == ""
    ada.goto(f"{demo.url}/submit")
    ada.get_by_label("Name", exact=True).fill("foretold")
    ada.get_by_label("Command", exact=True).fill("sleep 900")
    ada.get_by_label("GPUs", exact=True).fill("1")
    expect(ada.get_by_role("region", name="Dry run").get_by_text(FORECAST)).to_be_visible()
    ada.get_by_role("main").get_by_role("button", name="Submit job").click()
    ada.wait_for_url(re.compile(r"/jobs/\d+"))
    expect(ada.get_by_role("group", name="Forecast of its start")).to_contain_text(FORECAST)
    job_id = job_named(demo, "ada", "foretold")["id"]
    with demo.client("ada") as client:
        while client.when(job_id)["submitted"] is None:
            client.pause()
        for blocker in blockers:
            client.cancel(blocker)
        held = ada.get_by_role("definition").filter(has_text=re.compile(r"(interval|p10 of .*|p90 of .*)\)$"))
        expect(held).to_contain_text(FORECAST)
        client.cancel(job_id)
        while client.waits("main")["total"] is None:
            client.pause()
    ada.goto(f"{demo.url}/predictions")
    expect(ada.get_by_role("region", name="Waits by week")).to_contain_text("All weeks")
