"""The queue, as the command line and the SDK show it and act on waiting jobs."""

from __future__ import annotations

import json
from typing import Any

import httpx

from muster_client.client import Client
from tests.unit.client.fake_server import TOKEN, URL, FakeServer, Run, job, problem

VC = {"id": 5, "name": "vision", "tenant": "acme", "pool": "main", "quotas": [], "waiting": 2, "active": 0}


def entry(job_id: int, **changes: Any) -> Any:
    queued = {"evidence": {}, "waited_s": 90.0, "starts_at": None, "wait": None, "movable": True, "position": job_id}
    return job(id=job_id, state="queued") | queued | changes


def queue(*results: Any, following: str | None = None) -> httpx.Response:
    named = {"vc": "vision", "pool": "main", "policy": "fifo", "planner": "", "ordered_at": None}
    return httpx.Response(
        200, json={**named, "waiting": 2, "held": 0, "manages": False, "results": results, "next": following}
    )


def test_queue_lists_what_waits_in_the_own_virtual_cluster(server: FakeServer, run: Run) -> None:
    me = {
        "username": "ada",
        "email": "",
        "is_operator": False,
        "tenants": [],
        "vcs": ["vision"],
        "default_vc": "vision",
    }
    server.on("GET /me", httpx.Response(200, json=me))
    server.on("GET /vcs", httpx.Response(200, json={"results": [VC], "next": None}))
    hold = {"reason": "quota", "detail": "the quota is used", "helps": []}
    server.on("GET /vcs/5/queue", queue(entry(1, hold=hold), entry(2, position=None), following="x"))
    result = run("queue", "--limit", "2")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0] == ["PLACE", "JOB", "NAME", "OWNER", "GPUS", "WAITED", "WHY"]
    assert (lines[1][:2], lines[2][:2]) == (["1", "1"], ["-", "2"])
    assert "the quota is used" in result.stdout
    assert "--limit 4" in result.stderr
    assert json.loads(run("queue", "vision", "--limit", "2", "--json").stdout)["policy"] == "fifo"
    missing = run("queue", "nowhere")
    assert (missing.exit_code, "There is no virtual cluster nowhere" in missing.stderr) == (2, True)


def test_members_of_groups_are_held_and_released(server: FakeServer, run: Run) -> None:
    for kind in ("array", "sweep"):
        for act, words in (("hold", "are held"), ("release", "wait for their turns")):
            server.on(f"POST /{kind}s/7:{act}", httpx.Response(200, json={"members": 3}))
            assert run(kind, act, "7").stdout == f"Members that {words}: 3.\n"


def test_waiting_jobs_are_held_released_and_bumped(server: FakeServer, run: Run) -> None:
    for act in ("hold", "release", "bump", "unbump"):
        server.on(f"POST /jobs/7:{act}", httpx.Response(200, json=job()))
    assert run("hold", "7").stdout == "Job 7 (train) is held.\n"
    assert run("release", "7").stdout == "Job 7 (train) waits for its turn.\n"
    assert run("bump", "7").stdout == "Job 7 (train) goes first.\n"
    assert run("bump", "7", "--undo").stdout == "Job 7 (train) is back at its own place.\n"
    server.on("POST /jobs/7:hold", problem(409, "Conflict", detail="only a waiting job can be held"))
    result = run("hold", "7")
    assert (result.exit_code, "only a waiting job" in result.stderr) == (1, True)


def test_the_sdk_reads_pages_and_puts_jobs_in_order(server: FakeServer) -> None:
    server.on("GET /vcs/5/queue", queue(entry(1), following="x"), queue(entry(2)))
    server.on("POST /vcs/5/queue:reorder", httpx.Response(204))
    with Client(URL, TOKEN, transport=server.transport) as client:
        assert [one["id"] for one in client.queue(5)["results"]] == [1, 2]
        client.reorder(5, [2, 1])
    assert json.loads(server.requests[-1].content) == {"jobs": [2, 1]}
