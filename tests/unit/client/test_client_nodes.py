"""The nodes, as the command line shows them, and what operators do with one."""

from __future__ import annotations

import json
import re

import httpx
import pytest

from tests.unit.client.fake_server import FakeServer, Run, problem

NODE = {
    "name": "gpu01",
    "pool": "main",
    "admin": "active",
    "health": "ready",
    "reason": None,
    "address": "",
    "rack": "",
    "cpus": 64,
    "cpus_used": 0,
    "memory_mib": 1024,
    "memory_used_mib": 0,
    "labels": {},
    "last_seen_at": None,
    "gpus": [],
    "runtimes": ["process"],
    "barred": None,
    "running_jobs": [],
    "disk_mib": None,
    "disk_free_mib": None,
    "gpu_checks": [
        {
            "gpu": 0,
            "wanted": False,
            "at": None,
            "result": "failed",
            "how": "matmul",
            "detail": "a product is wrong",
            "duration_s": 8.0,
            "tflops": 312.46,
            "gb_s": None,
            "streak": -2,
        },
        {
            "gpu": 1,
            "wanted": True,
            "at": None,
            "result": None,
            "how": "",
            "detail": None,
            "duration_s": 0.0,
            "tflops": None,
            "gb_s": None,
            "streak": 0,
        },
    ],
}


def test_a_node_shows_how_much_of_its_disk_is_left_where_that_is_told(server: FakeServer, run: Run) -> None:
    server.on("GET /nodes/gpu01", httpx.Response(200, json={**NODE, "disk_mib": 102_400, "disk_free_mib": 2560}))
    assert "Disk: 2.5 of 100.0 GiB are free." in run("nodes", "gpu01").stdout
    server.on("GET /nodes/gpu01", httpx.Response(200, json=NODE))
    assert "Disk" not in run("nodes", "gpu01").stdout


def test_a_node_is_checked_and_shows_what_came_of_it(server: FakeServer, run: Run) -> None:
    server.on("POST /nodes/gpu01:check", httpx.Response(202, json=NODE))
    server.on("GET /nodes/gpu01", httpx.Response(200, json=NODE))
    assert run("nodes", "check", "gpu01").stdout == "1 GPU is being checked.\n"
    assert json.loads(run("nodes", "check", "gpu01", "--json").stdout) == NODE
    shown = run("nodes", "gpu01").stdout
    assert "312.5" in shown
    assert "a product is wrong" in shown
    assert "under way" in shown


def test_a_silent_node_is_declared_gone_with_a_reason(server: FakeServer, run: Run) -> None:
    server.on("POST /nodes/gpu01:declare-gone", httpx.Response(202, json=NODE))
    result = run("nodes", "declare-gone", "gpu01", "--reason", "it burnt")
    assert result.stdout == "gpu01 is declared gone: its jobs there are lost.\n"
    assert json.loads(server.sent("POST /nodes/gpu01:declare-gone")[-1].content) == {"reason": "it burnt"}
    server.on("POST /nodes/gpu01:declare-gone", problem(409, "Conflict", detail="node gpu01 was heard 2 s ago"))
    refused = run("nodes", "declare-gone", "gpu01", "-m", "it burnt")
    assert refused.exit_code != 0
    assert "was heard 2 s ago" in refused.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("declare-gone", "gpu01"), "nodes declare-gone gpu01 --reason TEXT"),
        (("drain", "gpu01"), "nodes drain gpu01 --reason TEXT"),
        (("drain",), "Name the node: muster nodes drain NAME"),
        (("--reason", "x"), "A reason goes with an action"),
    ],
)
def test_an_action_on_a_node_needs_its_node_and_a_reason(
    server: FakeServer, run: Run, words: tuple[str, ...], says: str
) -> None:
    result = run("nodes", *words)
    assert (result.exit_code, server.requests) == (2, [])
    assert says in result.stderr


def test_two_names_are_one_too_many(run: Run) -> None:
    result = run("nodes", "gpu01", "gpu02")
    assert result.exit_code == 2
    assert "gpu01 is not an action on a node; the actions are cordon, drain," in result.stderr


@pytest.mark.parametrize(
    ("action", "options", "says"),
    [
        ("cordon", ["-m", "fan"], "takes no new jobs"),
        ("drain", ["-m", "fan"], "is empty when the jobs"),
        ("move-off", ["-m", "fan", "--yes"], "queued again"),
        ("resume", [], "gpu01 takes jobs again."),
    ],
)
def test_an_operator_acts_on_a_node(server: FakeServer, run: Run, action: str, options: list[str], says: str) -> None:
    server.on("PATCH /nodes/gpu01", httpx.Response(200, json=NODE))
    assert says in run("nodes", action, "gpu01", *options).stdout
    reason = {"reason": "fan"} if options else {}
    assert [json.loads(request.content) for request in server.requests] == [{"action": action, **reason}]


@pytest.mark.parametrize(("answer", "status", "moved"), [("y\n", 0, 1), ("n\n", 2, 0), ("", 2, 0)])
def test_jobs_are_moved_off_only_after_they_were_named_and_confirmed(
    server: FakeServer, run: Run, answer: str, status: int, moved: int
) -> None:
    job = {"id": 7, "name": "train", "owner": "ada", "tenant": "vision", "gpus": 8, "nodes": 2, "preemptible": True}
    jobs = [job, {**job, "id": 8, "name": "serve", "preemptible": False}]
    server.on("GET /nodes/gpu01", httpx.Response(200, json={**NODE, "running_jobs": jobs}))
    server.on("PATCH /nodes/gpu01", httpx.Response(200, json=NODE))
    result = run("nodes", "move-off", "gpu01", "-m", "fan", stdin=answer)
    assert (result.exit_code, len(server.sent("PATCH /nodes/gpu01"))) == (status, moved)
    assert re.search(r"7 +train +ada +vision +8 +2 +stops and is queued again", result.stderr)
    assert re.search(r"8 +serve .* is waited for", result.stderr)
