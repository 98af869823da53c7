"""`manage.py demo`, as a person at a terminal sees it: from nothing to three jobs, and back to nothing."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator

import httpx
import pytest

from tests.e2e.demo import Demo, new_demo, read_until

NAMES = ("ada", "grace", "otto")

# They follow one another on one state folder: a parallel run has to give them all to one worker (`--dist loadfile`).
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def demo() -> Iterator[Demo]:
    """Its state folder, which all tests here share."""
    with new_demo() as demo:
        yield demo


@pytest.fixture(scope="module")
def first_run(demo: Demo) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The first run, which stays, and what it printed until it said how to end it."""
    with demo.start() as process:
        try:
            yield process, read_until(process, "Ctrl-C stops everything")
        finally:
            # Not killed: what it started would stay.
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=60)


def test_three_jobs_end_as_they_should(first_run: tuple[subprocess.Popen[str], str]) -> None:
    _, shown = first_run
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines() if line.startswith("│")]
    assert [(row[1], row[3], row[5], row[6], row[8]) for row in rows] == [
        ("hello", "1", "0", "succeeded", "✓"),
        ("gang", "4", "0", "succeeded", "✓"),
        ("failing", "1", "1", "failed", "✓"),
    ]


def test_their_output_is_streamed(first_run: tuple[subprocess.Popen[str], str]) -> None:
    _, shown = first_run
    assert "hello │ [100%]" in shown
    assert "gang │ rank 1: largest error of a weight" in shown
    assert "failing │ IndexError: list index out of range" in shown


def test_the_passwords_that_it_prints_sign_in(demo: Demo, first_run: tuple[subprocess.Popen[str], str]) -> None:
    _, shown = first_run
    passwords = {words[0]: words[1] for line in shown.splitlines() if (words := line.split()) and words[0] in NAMES}
    assert set(passwords) == set(NAMES)
    for name, password in passwords.items():
        with httpx.Client(base_url=demo.url, trust_env=False) as browser:
            browser.get("/api/v1/login")
            token = browser.cookies["csrftoken"]
            answer = browser.post(
                "/api/v1/login", json={"username": name, "password": password}, headers={"X-CSRFToken": token}
            )
            assert (answer.status_code, answer.json()["username"]) == (200, name)


def test_the_tokens_of_its_file_work_and_tenants_are_apart(
    demo: Demo, first_run: tuple[subprocess.Popen[str], str]
) -> None:
    assert json.loads((demo.home / "demo.json").read_text())["url"] == demo.url
    seen = {}
    for name in NAMES:
        with demo.client(name) as client:
            seen[name] = sorted(job["name"] for job in client.jobs()["results"])
    assert seen == {"ada": ["failing", "hello"], "grace": ["gang"], "otto": ["failing", "gang", "hello"]}


def test_a_second_one_on_the_same_state_is_refused(demo: Demo, first_run: tuple[subprocess.Popen[str], str]) -> None:
    process, _ = first_run
    with demo.start("--once") as second:
        shown, _ = second.communicate()
    assert second.returncode == 1
    assert f"already: process {process.pid}" in shown


def test_an_interrupt_ends_everything_also_a_job_that_hides(
    demo: Demo, first_run: tuple[subprocess.Popen[str], str]
) -> None:
    process, _ = first_run
    with demo.client("ada") as client:
        job = client.submit({"name": "hidden", "command": "setsid sleep 1000 & echo here; sleep 1000", "gpus": 1})
        assert any(getattr(event, "text", "").startswith("here") for event in client.follow_logs(job["id"]))
    process.send_signal(signal.SIGINT)
    shown, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Stopping everything" in shown
    assert demo.processes() == []


def test_the_next_run_goes_on_with_the_same_state(demo: Demo, first_run: tuple[subprocess.Popen[str], str]) -> None:
    before = (demo.home / "demo.json").read_text()
    with demo.start("--once") as process:
        shown, _ = process.communicate()
    assert process.returncode == 0, shown
    assert (demo.home / "demo.json").read_text() == before
    assert demo.processes() == []
