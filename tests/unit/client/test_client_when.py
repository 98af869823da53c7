"""The command that tells when a job starts."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from tests.unit.client.fake_server import FakeServer, Run

LIKELY = {
    "quick": 0.83,
    "p10_s": 5.0,
    "p50_s": 60.0,
    "p90_s": 900.0,
    "source": "model",
    "says": "likely within 10 minutes (83 %)",
}
WHEN = {
    "wait": LIKELY,
    "wait_unknown": "",
    "submitted": LIKELY | {"says": "in about 2 h (p50), within 6 h with 90 %"},
    "eligible_at": "2026-11-28T10:00:00Z",
    "starts_p50_at": "2026-11-28T10:01:00Z",
    "starts_p90_at": "2026-11-28T10:15:00Z",
    "started_at": None,
    "waited_s": 30.0,
}
DRY_RUN = {
    "feasible": True,
    "fits_quota": True,
    "starts_now": False,
    "hold": {"reason": "quota", "detail": "6 of 8 A100", "helps": []},
    "wait": None,
    "wait_unknown": "no job of this pool has started yet",
}


def test_when_shows_a_waiting_jobs_forecast_beside_that_of_its_submission(server: FakeServer, run: Run) -> None:
    server.on("GET /jobs/42/when", httpx.Response(200, json=WHEN))
    shown = run("when", "42").stdout
    assert "likely within 10 minutes (83 %)" in shown
    assert "in about 2 h (p50), within 6 h with 90 %" in shown
    assert json.loads(run("when", "42", "--json").stdout) == WHEN


def test_when_of_a_started_job_shows_its_wait(server: FakeServer, run: Run) -> None:
    started = {**WHEN, "wait": None, "starts_p50_at": None, "starts_p90_at": None, "waited_s": 240.0}
    server.on("GET /jobs/42/when", httpx.Response(200, json=started | {"started_at": "2026-11-28T10:04:00Z"}))
    shown = run("when", "42").stdout
    assert "Started" in shown
    assert "4 min" in shown


def test_when_of_a_spec_asks_for_a_dry_run_and_says_why_the_start_is_unknown(
    server: FakeServer, run: Run, tmp_path: Path
) -> None:
    server.on("POST /jobs:dry-run", httpx.Response(200, json=DRY_RUN))
    (tmp_path / "job.yaml").write_text("command: x\ngpus: 2\n")
    shown = run("when", "job.yaml").stdout
    assert "not known: no job of this pool has started yet" in shown
    assert "6 of 8 A100" in shown
    assert json.loads(run("when", "job.yaml", "--json").stdout) == DRY_RUN


def test_run_with_dry_run_submits_nothing_and_tells_the_start(server: FakeServer, run: Run) -> None:
    told = {"valid": True, "spec": {"nodes": 1}, "position": 1, "gpus_total": 2, "sizes": []}
    told["gpu_choices"] = [{"gpu_type": None, "gpus": 2}]
    told |= {"notes": [], "runtime": {"runtime": "process", "why": "x", "nodes": 1, "of": 1}}
    told["screening"] = {"tried": False, "why": "no pool screens", "starts_now": None, "hold": None}
    server.on("POST /jobs:dry-run", httpx.Response(200, json=told | DRY_RUN))
    shown = run("run", "--dry-run", "--gpus", "2", "--", "true").stdout
    assert "not known: no job of this pool has started yet" in shown


@pytest.mark.parametrize("words", [("when", "42", "--set", "gpus=2"), ("when", "missing.yaml")])
def test_when_refuses_what_it_cannot_ask_about(run: Run, words: tuple[str, ...]) -> None:
    assert run(*words).exit_code == 2
