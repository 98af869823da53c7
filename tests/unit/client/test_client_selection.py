"""Cancelling what matches, cloning with changes, specs as text, and jobs that could never run."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from muster_client import load_spec
from tests.unit.client.fake_server import FakeServer, Run, job


def selected(server: FakeServer, count: int, *, refused: int = 0) -> None:
    """Let `count` jobs match, of which the server refuses to cancel some."""
    server.on("GET /jobs:count", httpx.Response(200, json={"jobs": 9, "gpus": 9, "states": [], "cancellable": count}))
    problems = [
        {"id": 90 + n, "problem": {"title": "The state does not allow this", "detail": ""}} for n in range(refused)
    ]
    cancelled = list(range(1, count - refused + 1))
    answers = [
        {"cancelled": cancelled[:2], "refused": [], "remaining": count - 2},
        {"cancelled": cancelled[2:], "refused": problems, "remaining": 0},
    ]
    server.on("POST /jobs:cancel", *(httpx.Response(202, json=answer) for answer in answers))


def test_cancel_asks_with_the_number_of_jobs_that_match(server: FakeServer, run: Run) -> None:
    selected(server, 3)
    refused = run("cancel", "--tag", "sweep=lr", "--state", "queued", stdin="n\n")
    assert (refused.exit_code, server.sent("POST /jobs:cancel")) == (1, [])
    assert "Cancel 3 jobs?" in refused.stderr
    done = run("cancel", "--tag", "sweep=lr", "--state", "queued", stdin="y\n")
    assert done.exit_code == 0
    assert done.stdout.endswith("Cancelled 3 jobs; running jobs stop within their grace.\n")
    bodies = [json.loads(request.content) for request in server.sent("POST /jobs:cancel")]
    assert bodies == [{"tag": ["sweep:lr"], "state": ["queued"], "mine": True}] * 2


def test_cancel_with_yes_does_not_ask_and_names_jobs_that_stay(server: FakeServer, run: Run) -> None:
    selected(server, 3, refused=1)
    result = run("cancel", "--state", "running", "--owner", "pete", "--yes")
    assert (result.exit_code, "Cancelled 2 jobs" in result.stdout, "Job 90: " in result.stderr) == (1, True, True)
    assert json.loads(server.sent("POST /jobs:cancel")[0].content) == {"state": ["running"], "owner": "pete"}


def test_cancel_of_nothing_says_so(server: FakeServer, run: Run) -> None:
    selected(server, 0)
    assert run("cancel", "--tag", "a=b").stdout == "No job that you may cancel matches.\n"


@pytest.mark.parametrize("arguments", [(), ("7", "--tag", "a=b"), ("--tag", "a:b")])
def test_cancel_refuses_a_selection_that_is_not_clear(server: FakeServer, run: Run, arguments: tuple[str, ...]) -> None:
    result = run("cancel", *arguments)
    assert (result.exit_code, server.requests) == (2, [])
    assert "--tag" in result.stderr


def test_clone_sends_only_the_keys_that_set_changes(server: FakeServer, run: Run) -> None:
    spec = {"command": "python train.py", "gpus": 1, "env": {"LR": "0.1", "SEED": "1"}}
    server.on("GET /jobs/7", httpx.Response(200, json=job(spec=spec)))
    server.on("POST /jobs/7:clone", httpx.Response(201, json=job(id=8)))
    assert run("clone", "7", "--set", "env.LR='0.3'", "--set", "gpus=1").stdout == "Submitted job 8 (train).\n"
    body = json.loads(server.sent("POST /jobs/7:clone")[0].content)
    assert body == {"spec": {"env": {"LR": "0.3", "SEED": "1"}}}


def test_spec_prints_yaml_that_submits_the_same_job(server: FakeServer, run: Run) -> None:
    asked = {
        "name": "on",
        "command": "set -e\npython train.py\n",
        "gpus": 2,
        "env": {"A": "1e3", "B": "1:30", "C": "é"},
    }
    spec = asked | {"nodes": 1, "outputs": []}
    server.on("GET /jobs/7", httpx.Response(200, json=job(spec=spec)))
    server.on("GET /spec/schema", httpx.Response(200, json={"properties": {"nodes": {"default": 1}, "gpus": {}}}))
    text = run("spec", "7").stdout
    assert load_spec(text) == asked
    assert "gpus: 2\n" in text
    assert "command: |\n  set -e\n  python train.py\n" in text
    assert json.loads(run("spec", "7", "--json").stdout) == spec


def test_spec_writes_characters_that_steer_a_terminal_as_escapes(server: FakeServer, run: Run) -> None:
    spec = {"command": "echo \u202e\x1b[2J"}
    server.on("GET /jobs/7", httpx.Response(200, json=job(spec=spec)))
    server.on("GET /spec/schema", httpx.Response(200, json={}))
    text = run("spec", "7").stdout
    assert text.isascii()
    assert load_spec(text) == spec


@pytest.mark.parametrize(("feasible", "fits_quota"), [(False, True), (True, False)])
def test_a_dry_run_of_a_job_that_could_never_run_fails_with_the_reason(
    server: FakeServer, run: Run, tmp_path: Path, feasible: bool, fits_quota: bool
) -> None:
    hold = {"reason": "infeasible", "detail": "the largest node of this pool has 8", "helps": []}
    told = {"valid": True, "spec": {"nodes": 1}, "starts_now": False, "hold": hold, "position": 1, "gpus_total": 9}
    told["gpu_choices"] = [{"gpu_type": None, "gpus": 9}]
    told |= {"sizes": [], "notes": [], "runtime": {"runtime": "process", "why": "x", "nodes": 1, "of": 1}}
    told["screening"] = {"tried": False, "why": "no pool screens", "starts_now": None, "hold": None}
    told |= {"wait": None, "wait_unknown": "no job of this pool has started yet"}
    answer = {**told, "feasible": feasible, "fits_quota": fits_quota}
    server.on("POST /jobs:dry-run", httpx.Response(200, json=answer))
    (tmp_path / "job.yaml").write_text("command: x\ngpus: 9\n")
    result = run("dry-run", "job.yaml")
    assert (result.exit_code, "could never run" in result.stderr, hold["detail"] in result.stderr) == (1, True, True)
    assert run("dry-run", "job.yaml", "--json").exit_code == 1


def test_a_job_that_waits_for_hardware_is_submitted_with_a_warning(server: FakeServer, run: Run) -> None:
    warning = "pool main could never run this job: the largest node of this pool has 8"
    server.on("POST /jobs", httpx.Response(201, json=job(warnings=[warning])))
    result = run("run", "--gpus", "9", "true")
    assert (result.exit_code, result.stderr) == (0, f"warning: {warning}.\n")
    assert "Submitted job 7" in result.stdout
