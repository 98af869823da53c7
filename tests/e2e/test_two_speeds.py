"""`manage.py demo --heterogeneous`: the same script on two emulated GPU types is as fast as their profiles say,
and a policy that is told these rates uses them."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import psycopg2
import pytest
from playwright.sync_api import Page, expect

from muster.local.demo import jobs
from muster.local.demo.cluster import MIXED
from muster.local.places import find_places, service_password
from muster.local.postgres import DATABASE, OWNER
from muster_client.answers.terms import FINISHED
from tests.e2e import browser as browsing
from tests.e2e.demo import Demo, new_demo, read_until
from tests.waiting import eventually

browser = browsing.browser
page = browsing.page
pytestmark = pytest.mark.timeout(900)

QUERY = """SELECT job.name, speed.gpu_type, speed.per_s FROM samples_speedalone speed
JOIN jobs_job job ON job.id = speed.job_id"""


@pytest.fixture(scope="module")
def told() -> Iterator[tuple[Demo, str]]:
    """The demonstration with two GPU types, running, and what it printed; its jobs have ended."""
    with new_demo() as demo, demo.start("--heterogeneous") as process:
        try:
            yield demo, read_until(process, "Ctrl-C stops everything")
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)


def measured(demo: Demo) -> dict[tuple[str, str], float]:
    """The measured steps per second of each job by its GPU type."""
    places = find_places(demo.home)
    address = {"user": OWNER, "password": service_password(places), "dbname": DATABASE, "host": str(places.sockets)}
    with contextlib.closing(psycopg2.connect(**address)) as link, link.cursor() as cursor:
        cursor.execute(QUERY)
        return {(name, gpu_type): per_s for name, gpu_type, per_s in cursor.fetchall()}


@pytest.fixture
def measured_twice(told: tuple[Demo, str]) -> Iterator[tuple[Demo, int]]:
    """A job that accepts both types waits, and jobs of its name run on both; its id."""
    demo, _ = told
    submitted = []
    with demo.client("ada") as client:
        for gpu_type, hours in (("A100", 2), ("V100", 4)):
            spec = {"name": "net", "vc": MIXED, "gpus": f"{gpu_type}:1", "expected": f"{hours}h", "time": "12h"}
            # In an hour they do less than a hundredth of these steps, so that what is expected of them holds.
            example = jobs.Example("two-speeds", "ada", "cancelled", {**spec, "env": {"STEPS": 10_000_000}})
            submitted.append(jobs.submit(demo.url, demo.token("ada"), example)["id"])
            other = {"command": "sleep 1000", "vc": MIXED, "gpus": f"{gpu_type}:1", "cpus": 1, "expected": "12h"}
            submitted.append(client.submit(other)["id"])
        wait_until(lambda: {("net", "A100"), ("net", "V100")} <= measured(demo).keys())
        either = {"command": "true", "name": "net", "gpus": {"any_of": ["A100:1", "V100:1"]}, "expected": "3h"}
        submitted.append(client.submit({**either, "vc": MIXED, "cpus": 1})["id"])
        wait_until(lambda: len(client.job(submitted[-1]).get("rates", ())) == 2)
        try:
            yield demo, submitted[-1]
        finally:
            for job_id in reversed(submitted):
                client.cancel(job_id)
            wait_until(lambda: all(client.job(job_id)["state"] in FINISHED for job_id in submitted))


def wait_until(done: Callable[[], bool]) -> None:
    """Return when it is done; fail after four minutes, or a multiple of them on a busy machine."""
    eventually(done, within_s=240, max_pause_s=1.0)


def test_measured_rates_are_in_the_ratio_of_the_profiles(told: tuple[Demo, str]) -> None:
    demo, shown = told
    rates = measured(demo)
    assert shown.count("✓ │") >= 7, shown
    assert {("big-net-a100", "A100"), ("big-net-v100", "V100")} <= rates.keys()
    assert {("small-net-a100", "A100"), ("small-net-v100", "V100")} <= rates.keys()
    big, small = rates["big-net-a100", "A100"], rates["small-net-a100", "A100"]
    assert big == pytest.approx(25, rel=0.05)
    assert big / rates["big-net-v100", "V100"] == pytest.approx(2.5, rel=0.05)
    assert small / rates["small-net-v100", "V100"] == pytest.approx(1.2, rel=0.05)


def asked(demo: Demo, method: str, what: str, body: Mapping[str, object] | None = None) -> dict[str, Any]:
    """Ask the platform as the operator about the pool of two GPU types."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {demo.token('otto')}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{demo.url}/api/v1/pools/{MIXED}/{what}", data, headers, method=method)
    with urllib.request.urlopen(request) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def test_gavel_gives_the_fast_type_to_the_jobs_that_gain_most(told: tuple[Demo, str]) -> None:
    demo, _ = told
    before = asked(demo, "GET", "policy")
    params = {"objective": "throughput", "round_s": 5, "reset_s": 0}
    asked(demo, "PUT", "policy", {"policy": "gavel", "policy_params": params})
    claims = {"small-net": {"A100": 24, "V100": 20}, "big-net": {"A100": 25, "V100": 10}}
    submitted = {}
    with demo.client("ada") as client:
        try:
            for model in ("small-net", "small-net", "big-net", "big-net"):
                changes = {
                    "name": model,
                    "vc": MIXED,
                    "gpus": {"any_of": ["A100:1", "V100:1"]},
                    "throughput": claims[model],
                    "time": "30m",
                    "env": {"MODEL": model, "STEPS": 100_000},
                }
                job = jobs.submit(demo.url, demo.token("ada"), jobs.Example("two-speeds", "ada", "cancelled", changes))
                submitted[job["id"]] = model

            def on_their_types() -> bool:
                found = asked(demo, "GET", "decisions")["last_round"]
                rows = {row["job_ids"][0]: row for row in found["rows"]} if found else {}
                best = {"big-net": "A100", "small-net": "V100"}
                return submitted.keys() == rows.keys() and all(
                    rows[number]["why"].startswith(f"runs on {best[model]}")
                    and rows[number]["by_type"][0]["gpu_type"] == best[model]
                    and rows[number]["by_type"][0]["share"] > 0.9
                    for number, model in submitted.items()
                )

            wait_until(on_their_types)
        finally:
            asked(demo, "PUT", "policy", {name: before[name] for name in ("policy", "policy_params")})
            for number in submitted:
                client.cancel(number)
            wait_until(lambda: all(client.job(number)["state"] in FINISHED for number in submitted))


class TestItsPage:
    pytestmark = browsing.NEEDS[1:]

    def test_a_job_measured_on_both_types_shows_both_rates_and_where_it_finishes_first(
        self, measured_twice: tuple[Demo, int], page: Page
    ) -> None:
        demo, job_id = measured_twice
        page.goto(demo.url)
        browsing.sign_in(page, demo, "ada")
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        page.goto(f"{demo.url}/jobs/{job_id}")
        main = page.get_by_role("main")
        shown = r"1 A100: 2[45][\d.]* ± [\d.]+ per second, measured; 1 V100: (9|10)[\d.]* ± [\d.]+ per second, measured"
        expect(main.get_by_text(re.compile(shown))).to_be_visible()
        card = page.get_by_role("region", name="A100 in 2 h finishes before V100 in 4 h")
        expect(card).to_contain_text("finish in about 5 h")
