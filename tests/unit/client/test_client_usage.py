"""`muster usage`: GPU-hours as tables, JSON and CSV."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from muster.usage.outcomes import WASTED as WASTED_THERE
from muster.usage.outcomes import Outcome
from muster_client.show.usage import OUTCOMES, WASTED, hours
from tests.unit.client.fake_server import FakeServer, Run, job, problem

PERIOD = {"from": "2026-11-15T00:00:00Z", "to": "2026-11-22T00:00:00Z"}
EMPTY = dict.fromkeys(
    ["tenant", "vc", "user", "gpu_type", "class", "day", "week", "state", "outcome", "failure", "category", "retry"]
)


def row(gpu_hours: float, **values: Any) -> dict[str, Any]:
    return {**EMPTY, "gpu_hours": gpu_hours, "jobs": 2, "attempts": 3, **values}


def usage(by: list[str], *rows: dict[str, Any]) -> httpx.Response:
    total = {"gpu_hours": sum(one["gpu_hours"] for one in rows), "jobs": 4, "attempts": 6}
    return httpx.Response(200, json={**PERIOD, "by": by, "total": total, "results": list(rows)})


WASTE = {
    **PERIOD,
    "total": {"gpu_hours": 200.0, "jobs": 9, "attempts": 12},
    "wasted_gpu_hours": 100.0,
    "outcomes": [
        {"outcome": "succeeded", "gpu_hours": 100.0, "jobs": 5, "attempts": 5},
        {"outcome": "failed", "gpu_hours": 80.0, "jobs": 3, "attempts": 6},
        {"outcome": "work_lost", "gpu_hours": 20.0, "jobs": 1, "attempts": 1},
    ],
    "states": [{"state": "succeeded", "gpu_hours": 200.0, "jobs": 9, "attempts": 12}],
    "failures": [
        {
            "failure": "gpu_out_of_memory",
            "category": "user",
            "outcome": "failed",
            "gpu_hours": 80.0,
            "jobs": 3,
            "attempts": 6,
        }
    ],
    "retries": {"gpu_hours": 50.0, "attempts": 3, "succeeded_gpu_hours": 10.0, "wasted_gpu_hours": 40.0},
    "screening": {
        **dict.fromkeys(["passed", "inconclusive", "interrupted", "untried", "trusted"], 1),
        "tried": 9,
        "failed": 4,
        "spent_gpu_hours": 1.5,
        "saved_gpu_hours": 12.0,
    },
}


def asked(server: FakeServer) -> dict[str, str]:
    return dict(server.requests[-1].url.params)


def test_a_table_has_a_line_for_each_row_and_the_sum(server: FakeServer, run: Run) -> None:
    server.on("GET /usage", usage(["vc", "gpu_type"], row(30, vc="vision", gpu_type="A100"), row(10, vc="speech")))
    result = run("usage", "--by", "vc,gpu", "--since", "30d", "--tenant", "acme")
    assert asked(server) == {"by": "vc,gpu", "since": "30d", "tenant": "acme"}
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines == [
        ["VC", "GPU", "TYPE", "GPU-HOURS", "SHARE", "JOBS"],
        ["vision", "A100", "30.00", "75", "%", "2"],
        ["speech", "-", "10.00", "25", "%", "2"],
        ["all", "40.00", "100", "%", "4"],
    ]


def test_the_words_for_by_may_come_one_by_one(server: FakeServer, run: Run) -> None:
    server.on("GET /usage", usage(["day", "outcome"], row(1, day="2026-11-20", outcome="work_lost")))
    result = run("usage", "--by", "day", "--by", "outcome", "--from", "2026-11-01", "--to", "2026-11-22")
    assert asked(server) == {"by": "day,outcome", "from": "2026-11-01", "to": "2026-11-22"}
    assert "preempted, begins anew" in result.stdout


def test_who_used_nothing_is_told_so(server: FakeServer, run: Run) -> None:
    server.on("GET /usage", usage(["vc"]))
    assert run("usage").stdout == "No GPU was used from 2026-11-15 00:00 UTC to 2026-11-22 00:00 UTC.\n"


def test_waste_tells_what_came_to_nothing_and_of_what(server: FakeServer, run: Run) -> None:
    server.on("GET /usage/waste", httpx.Response(200, json=WASTE))
    shown = run("usage", "--waste", "--since", "7d").stdout
    assert asked(server) == {"since": "7d"}
    assert shown.startswith("200 GPU-hours from 2026-11-15 00:00 UTC to 2026-11-22 00:00 UTC; 100 (50 %) came to")
    assert "gpu_out_of_memory  user      80.00      40 %   6" in shown
    assert "Retries took 50.00 GPU-hours (25 %), of which 40.00 were wasted too." in shown
    assert "Screening: 9 runs took 1.50 GPU-hours; 4 jobs failed in them, which saved 12.00." in shown


def waits(**parts: float) -> dict[str, Any]:
    names = ("not_eligible_s", "fair_share_s", "capacity_s", "apart_s", "order_s", "fragmentation_s", "other_s")
    return {"starts": 4, "waiting": 1, **dict.fromkeys(names, 0.0), **parts}


def test_delays_are_a_column_each_and_together(server: FakeServer, run: Run) -> None:
    row = {
        **dict.fromkeys(["tenant", "vc", "user", "day", "week"]),
        "size": "2-4",
        **waits(capacity_s=3660, order_s=60),
    }
    found = {**PERIOD, "by": ["size"], "total": waits(capacity_s=90), "results": [row]}
    server.on("GET /usage/delays", httpx.Response(200, json=found))
    shown = run("usage", "--delays", "--by", "size", "--since", "30d").stdout
    assert asked(server) == {"by": "size", "since": "30d"}
    lines = [line.split() for line in shown.splitlines()]
    assert " ".join(lines[0]) == "SIZE STARTS WAIT NOT YET SHARE CAPACITY APART ORDER OTHER ALL"
    assert lines[1][:3] == ["2-4", "4", "1"]
    assert shown.splitlines()[1].rstrip().endswith("  1 h")
    assert lines[2][0] == "all"
    assert json.loads(run("usage", "--delays", "--json").stdout) == found
    server.on("GET /usage/delays", httpx.Response(200, json={**found, "results": []}))
    assert run("usage", "--delays").stdout.startswith("Nothing started from 2026-11-15")


EFFICIENCY = {
    "attempt": 1,
    "grade": "poor",
    "silence": None,
    "utilization": 38.2,
    "idle_gpus": 1,
    "gpu_hours": 4.0,
    "idle_gpu_hours": 2.5,
    "gpus": [],
    "cpus": 8,
    "cpu_cores": 1.0,
    "memory_mib": 1024,
    "memory_used_mib": 512.0,
    "advice": ["First.", "Second \x1b[31mred."],
}


def test_a_job_is_shown_with_its_grade_and_advice(server: FakeServer, run: Run) -> None:
    server.on("GET /jobs/7", httpx.Response(200, json=job(state="succeeded", efficiency=EFFICIENCY)))
    shown = run("show", "7").stdout
    assert "poor: it used 38 % of the time of its GPUs, 1 of them idle" in shown
    assert "Advice" in shown
    assert "First." in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize("changes", [{}, {"efficiency": None}])
def test_a_job_without_a_grade_is_shown_without(server: FakeServer, run: Run, changes: dict[str, Any]) -> None:
    server.on("GET /jobs/7", httpx.Response(200, json=job(state="succeeded", **changes)))
    result = run("show", "7")
    assert (result.exit_code, "Efficiency" in result.stdout) == (0, False)


def test_a_job_is_shown_with_how_much_slower_it_was_than_alone(server: FakeServer, run: Run) -> None:
    server.on("GET /jobs/7", httpx.Response(200, json=job()))
    sentence = "1.3× slower than with your own 8 GPUs, as it stands"
    known = {"final": False, "sentence": sentence, "taken_s": 60.0}
    server.on("GET /jobs/7/fairness", httpx.Response(200, json=known))
    assert f"Fairness         {sentence}" in run("show", "7").stdout
    for nothing in (httpx.Response(404, json={}), httpx.Response(200, json=known | {"taken_s": None})):
        server.on("GET /jobs/7/fairness", nothing)
        assert "Fairness" not in run("show", "7").stdout


def test_why_there_is_no_grade_needs_no_line(server: FakeServer, run: Run) -> None:
    silent = {**EFFICIENCY, "grade": None, "utilization": None, "silence": "too_short", "advice": []}
    server.on("GET /jobs/7", httpx.Response(200, json=job(state="succeeded", efficiency=silent)))
    assert "Efficiency" not in run("show", "7").stdout


@pytest.mark.parametrize(
    ("arguments", "by"), [((), "vc"), (("--by", "user"), "user"), (("--waste",), "outcome,category,failure")]
)
def test_a_table_for_spreadsheets_is_printed_as_it_comes(
    server: FakeServer, run: Run, arguments: tuple[str, ...], by: str
) -> None:
    table = f"{by},gpu_hours\r\n{'x' * 300},1\r\n"
    server.on("GET /usage", httpx.Response(200, text=table, headers={"Content-Type": "text/csv; charset=utf-8"}))
    result = run("usage", "--csv", *arguments)
    assert asked(server) == {"by": by, "format": "csv"}
    assert result.stdout_bytes == table.encode()


def test_programs_get_the_document(server: FakeServer, run: Run) -> None:
    server.on("GET /usage/waste", httpx.Response(200, json=WASTE))
    assert json.loads(run("usage", "--waste", "--json").stdout) == WASTE


@pytest.mark.parametrize("arguments", [("--csv", "--json"), ("--waste", "--by", "user"), ("--delays", "--csv")])
def test_what_contradicts_itself_is_refused(run: Run, arguments: tuple[str, ...]) -> None:
    assert run("usage", *arguments).exit_code == 2


def test_what_the_server_refuses_is_told_by_its_field(server: FakeServer, run: Run) -> None:
    refusal = problem(422, "Some fields are wrong", errors=[{"field": "since", "message": "'x' is not a duration"}])
    server.on("GET /usage", refusal)
    result = run("usage", "--since", "x")
    assert (result.exit_code, "since: 'x' is not a duration" in result.stderr) == (2, True)


def test_every_outcome_has_words_here() -> None:
    assert OUTCOMES.keys() == {one.value for one in Outcome}
    assert {one.value for one in WASTED_THERE} == WASTED


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0.00"), (0.004, "<0.01"), (1.255, "1.25"), (99.9, "99.90"), (1234.4, "1,234")]
)
def test_gpu_hours_have_as_many_digits_as_one_wants_to_know(value: float, shown: str) -> None:
    assert hours(value) == shown
