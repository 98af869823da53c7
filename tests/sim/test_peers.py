"""Naming the format of a trace sets the assumptions of its authors' simulator; options override them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scheduler.sim.__main__ import main
from scheduler.sim.arguments import Arguments, prepare
from scheduler.sim.options import Options
from scheduler.sim.readers import formats
from tests.sim.data import data

POLLUX = formats()["pollux"].peer


def pollux(**fields: Any) -> Options:
    """Options of a run of Pollux's workload."""
    trace = data("adaptdl_osdi21", "workloads", "workload-6.csv")
    study = prepare(Arguments(trace=trace, policies=("tiresias",), cluster="T4:16x4", limit=2, **fields))
    return study.runs[0][1]


def test_tiresias_on_workload_6_has_the_published_mean_jct(tmp_path: Path) -> None:
    trace, out = data("adaptdl_osdi21", "workloads", "workload-6.csv"), tmp_path / "out.json"
    arguments = ["--format", "pollux", "--policy", "tiresias", "--cluster", "T4:16x4", "--json", str(out)]
    assert main(["--trace", str(trace), *arguments]) == 0
    (run,) = json.loads(out.read_text())["runs"]
    assert round(run["jct_mean_s"], 2) == 3469.69


def test_the_named_format_brings_its_authors_assumptions() -> None:
    assert POLLUX is not None
    found, theirs = pollux(format="pollux"), Options.like(POLLUX, "tiresias")
    names = ("round_s", "first_round_s", "restart_s", "placement", "policy_params")
    assert {name: getattr(found, name) for name in names} == {name: getattr(theirs, name) for name in names}
    assert (found.round_s, found.first_round_s, found.restart_s, found.placement) == (60.0, 60.0, 30.0, "spread")


SAID = {
    "a round": ({"round_s": 0.0}, "round_s", 0.0),
    "the first round": ({"first_round_s": 5.0}, "first_round_s", 5.0),
    "a restart": ({"restart_s": 0.0}, "restart_s", 0.0),
    "a placement": ({"placement": "consolidate"}, "placement", "consolidate"),
}


@pytest.mark.parametrize(("given", "name", "value"), SAID.values(), ids=SAID)
def test_options_override_them(given: dict[str, Any], name: str, value: object) -> None:
    assert getattr(pollux(format="pollux", **given), name) == value


UNLESS = {
    "the format is told by the first lines": {},
    "they are refused": {"format": "pollux", "peer": False},
}


@pytest.mark.parametrize("given", UNLESS.values(), ids=UNLESS)
def test_they_are_not_assumed_when(given: dict[str, Any]) -> None:
    found = pollux(**given)
    assert (found.round_s, found.restart_s, found.placement, found.policy_params) == (0.0, 0.0, "consolidate", {})


def test_they_are_assumed_without_the_format_when_asked_for() -> None:
    assert pollux(peer=True) == pollux(format="pollux")


def test_a_format_without_such_authors_may_be_named(tmp_path: Path) -> None:
    trace = tmp_path / "jobs.swf"
    trace.write_text("1 0 0 10 1 -1 -1 1 10 -1 1 1 1 -1 1 -1 -1 -1\n")
    (named,) = prepare(Arguments(trace=trace, format="swf", policies=("fifo",), cluster="V100:1x1")).runs
    assert named[1].round_s == 0.0
