"""Sweeps, as the command line and the SDK submit, show, cancel and clone them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from muster_client.client import Client
from tests.unit.client.fake_server import TOKEN, URL, FakeServer, Run, job, problem

SPEC = {
    "name": "lr-search",
    "command": "python train.py",
    "gpus": 1,
    "sweep": {"method": "asha", "metric": "val_loss", "params": {"lr": [0.1, 0.01]}, "members": 27},
}


def sweep(**changes: Any) -> Any:
    return {
        "id": 12,
        "name": "lr-search",
        "tenant": "acme",
        "vc": "vision",
        "pool": "main",
        "owner": "ada",
        "state": "active",
        "reason": "",
        "method": "asha",
        "metric": "val_loss",
        "goal": "min",
        "params": ["lr", "norm"],
        "parallel": 8,
        "members": {
            "total": 27,
            "waiting": 18,
            "running": 4,
            "paused": 0,
            "succeeded": 1,
            "failed": 1,
            "stopped": 3,
            "cancelled": 0,
        },
        "best": {"job": 103, "member": 3, "params": {"lr": 0.01, "norm": True}, "value": 0.125, "step": 27},
        "best_so_far": [[60.0, 0.5], [90.0, 0.125]],
        "rungs": [{"steps": 3, "reached": 9, "kept": 6}, {"steps": 27, "reached": 1, "kept": 1}],
        "gpu_hours": 1.5,
        "saved_gpu_hours": 4.25,
        "submitted_at": "2026-11-21T00:00:00Z",
        "ended_at": None,
        "cloned_from": None,
        "rho": {"cluster": 1.1, "quota": 1.3, "sentence": "1.3× slower than with your own 8 GPUs"},
        "spec": SPEC,
        "notes": [],
        "warnings": [],
        **changes,
    }


def member(number: int, value: float | None, **changes: Any) -> Any:
    return {
        "member": number,
        "job": 100 + number,
        "state": "running",
        "params": {"lr": 0.1 / number, "norm": False},
        "value": value,
        "step": None if value is None else 3,
        "rung": 0,
        "gpu_hours": 0.5,
        "saved_gpu_hours": 0.0,
        "why": "",
        "started_at": None,
        "ended_at": None,
        **changes,
    }


def spec_file(folder: Path) -> str:
    (folder / "sweep.yaml").write_text(json.dumps(SPEC))
    return str(folder / "sweep.yaml")


def test_a_spec_with_a_sweep_is_submitted_as_one(server: FakeServer, run: Run, tmp_path: Path) -> None:
    server.on("POST /sweeps", httpx.Response(201, json=sweep(warnings=["no node has joined"])))
    result = run("submit", spec_file(tmp_path), "--set", "sweep.members=9", "--idempotency-key", "k1")
    assert result.exit_code == 0
    assert result.stdout == "Submitted sweep 12 (lr-search) with 27 members in vision: muster sweep show 12\n"
    assert result.stderr == "warning: no node has joined.\n"
    request = server.requests[0]
    assert json.loads(request.content) == {**SPEC, "sweep": {**SPEC["sweep"], "members": 9}}  # type: ignore[dict-item]
    assert request.headers["Idempotency-Key"] == "k1"


def test_a_refused_sweep_names_its_fields(server: FakeServer, run: Run, tmp_path: Path) -> None:
    errors = [{"field": "sweep.params.lr", "message": "the list of values is empty"}]
    server.on("POST /sweeps", problem(422, "The job spec is not valid", errors=errors))
    result = run("submit", spec_file(tmp_path))
    assert result.exit_code == 2
    assert "  sweep.params.lr: the list of values is empty" in result.stderr


def test_a_sweep_cannot_be_followed(server: FakeServer, run: Run, tmp_path: Path) -> None:
    result = run("submit", spec_file(tmp_path), "--follow")
    assert (result.exit_code, server.requests) == (2, [])
    assert "Submit it without --follow" in result.stderr


def test_a_dry_run_sends_the_sweep_whose_first_member_is_told_of(server: FakeServer, run: Run, tmp_path: Path) -> None:
    run("dry-run", spec_file(tmp_path))
    (request,) = server.sent("POST /jobs:dry-run")
    assert json.loads(request.content)["sweep"] == SPEC["sweep"]


def test_a_submission_without_an_answer_tells_its_key(server: FakeServer, run: Run, tmp_path: Path) -> None:
    server.on("POST /sweeps", httpx.ReadError("reset"))
    result = run("submit", spec_file(tmp_path))
    keys = {request.headers["Idempotency-Key"] for request in server.sent("POST /sweeps")}
    assert result.exit_code == 69
    assert len(keys) == 1
    assert f"the sweep may have been stored. Submitting it again with --idempotency-key {keys.pop()}" in result.stderr


def test_sweeps_are_listed_over_pages(server: FakeServer, run: Run) -> None:
    none_yet = sweep(id=11, best=None, saved_gpu_hours=0.0)
    server.on(
        "GET /sweeps",
        httpx.Response(200, json={"results": [sweep()], "next": "c"}),
        httpx.Response(200, json={"results": [none_yet], "next": None}),
    )
    result = run("sweep", "ls", "--mine", "--state", "active")
    head, *rows = result.stdout.splitlines()
    assert head.split() == [
        "ID",
        "NAME",
        "STATE",
        "VC",
        "OWNER",
        "METHOD",
        "ENDED",
        "BEST",
        "GPU-HOURS",
        "SAVED",
        "SUBMITTED",
    ]
    assert rows[0].split()[:11] == [
        "12",
        "lr-search",
        "running",
        "vision",
        "ada",
        "asha",
        "5/27",
        "val_loss",
        "0.125",
        "1.50",
        "4.25",
    ]
    assert rows[1].split()[6:10] == ["5/27", "-", "1.50", "0.00"]
    first, second = (dict(request.url.params) for request in server.requests)
    assert first == {"mine": "true", "state": "active", "limit": "50"}
    assert second == {**first, "limit": "49", "cursor": "c"}
    assert "a sweep is active, succeeded, failed or cancelled" in run("sweep", "ls", "--state", "queued").stderr


def test_a_sweep_is_shown_with_its_best_members_first(server: FakeServer, run: Run) -> None:
    stopped = member(2, 0.5, state="stopped", why="val_loss 0.5 at step 3 is number 4 of 5: only the best goes on")
    server.on("GET /sweeps/12", httpx.Response(200, json=sweep()))
    server.on(
        "GET /sweeps/12/members", httpx.Response(200, json={"results": [member(1, None), stopped, member(3, 0.125)]})
    )
    shown = run("sweep", "show", "12").stdout
    for words in (
        "asha, min of val_loss",
        "27, 8 at once: 18 waiting, 4 running, 1 succeeded, 1 failed, 3 stopped",
        "val_loss 0.125 at step 27, member 3, job 103: lr 0.01, norm true",
        "1.50; early stops saved 4.25",
        "1.3× slower than with your own 8 GPUs",
        "only the best goes on",
    ):
        assert words in shown
    lines = [line.split() for line in shown.splitlines()]
    assert ["1", "3", "9", "6"] in lines
    assert [line[0] for line in lines[-3:]] == ["3", "2", "1"]
    assert lines[-2][:8] == ["2", "102", "stopped", "0.5", "3", "0.50", "0.05", "false"]
    few = run("sweep", "show", "12", "--limit", "1")
    assert "There are 3 members; see them with --limit 3." in few.stderr
    document = json.loads(run("sweep", "show", "12", "--json", "--limit", "1").stdout)
    assert (document["id"], len(document["results"])) == (12, 3)


@pytest.mark.parametrize("goal", ["min", "max"])
def test_a_goal_decides_which_value_is_best(server: FakeServer, run: Run, goal: str) -> None:
    server.on("GET /sweeps/12", httpx.Response(200, json=sweep(goal=goal, reason="it ended", ended_at=None, rungs=[])))
    server.on("GET /sweeps/12/members", httpx.Response(200, json={"results": [member(1, 0.9), member(2, 0.1)]}))
    document = json.loads(run("sweep", "show", "12", "--json").stdout)
    assert [row["member"] for row in document["results"]] == ([2, 1] if goal == "min" else [1, 2])


def test_a_sweep_is_cancelled_by_its_number(server: FakeServer, run: Run) -> None:
    server.on("POST /sweeps/12:cancel", httpx.Response(202, json=sweep(state="cancelled")))
    result = run("sweep", "cancel", "12")
    assert result.stdout == "Sweep 12 is being cancelled; members that run stop within their grace.\n"
    assert run("sweep", "cancel", "13").exit_code == 4


def test_a_clone_sends_only_what_changes(server: FakeServer, run: Run) -> None:
    server.on("GET /sweeps/12", httpx.Response(200, json=sweep()))
    server.on("POST /sweeps/12:clone", httpx.Response(201, json=sweep(id=13, warnings=[])))
    sets = ("sweep.members=81", "sweep.params.wd=[0, 1]", "gpus=2", "name=lr-search")
    result = run("sweep", "clone", "12", *(word for item in sets for word in ("--set", item)))
    assert result.stdout == "Submitted sweep 13 (lr-search) with 27 members in vision: muster sweep show 13\n"
    changes = {"gpus": 2, "sweep": {"members": 81, "params": {"lr": [0.1, 0.01], "wd": [0, 1]}}}
    assert json.loads(server.requests[-1].content) == {"spec": changes}
    assert run("sweep", "clone", "12").exit_code == 0
    assert json.loads(server.requests[-1].content) == {"spec": {}}
    assert "set its keys" in run("sweep", "clone", "12", "--set", "sweep=1").stderr


def test_a_member_that_its_sweep_stopped_says_so_in_words(server: FakeServer, run: Run) -> None:
    stopped = job(state="cancelled", reason="stopped_early", reason_detail="its first 3 members to end failed")
    server.on("GET /jobs", httpx.Response(200, json={"results": [stopped], "next": None}))
    server.on("GET /jobs/7", httpx.Response(200, json=stopped))
    told = "stopped by its sweep: its first 3 members to end failed"
    assert run("ls", "--members", COLUMNS="300").stdout.splitlines()[1].rstrip().endswith(told)
    shown = run("show", "7", COLUMNS="300").stdout
    assert told in shown
    assert "stopped_early" not in shown


def test_a_retry_tells_how_many_members_run_again(server: FakeServer, run: Run) -> None:
    server.on("POST /sweeps/12:retry", httpx.Response(202, json=sweep(retried=2)))
    assert run("sweep", "retry", "12").stdout == "Sweep 12 goes on: 2 members of it run again.\n"
    assert run("sweep", "retry", "13").exit_code == 4


def test_a_job_tells_of_which_sweep_it_is(server: FakeServer, run: Run) -> None:
    of = {"id": 12, "kind": "sweep", "name": "lr-search", "state": "active", "member": 4, "index": None, "members": 27}
    of |= {"progress": None}
    server.on("GET /jobs/7", httpx.Response(200, json=job(group=of, params={"lr": 0.0123456789, "batch": 64})))
    assert "12 lr-search, member 4 of 27: lr 0.0123457, batch 64" in run("show", "7").stdout


def test_the_sdk_submits_and_reads_a_sweep(server: FakeServer) -> None:
    server.on("POST /sweeps", httpx.Response(201, json=sweep()))
    server.on("GET /sweeps/12", httpx.Response(200, json=sweep(state="succeeded")))
    with Client(URL, TOKEN, transport=server.transport, backoff=server.backoff) as client:
        submitted = client.submit_sweep(SPEC)
        best = client.sweep(submitted["id"])["best"]
    assert best is not None
    assert best["params"] == {"lr": 0.01, "norm": True}
