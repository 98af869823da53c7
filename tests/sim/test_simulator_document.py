"""The simulator's page describes every option, every figure, and every format whose authors have a simulator."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from scheduler.sim.arguments import Arguments, prepare
from scheduler.sim.metrics import summarize
from scheduler.sim.parser import parser
from scheduler.sim.readers import formats
from scheduler.sim.report import Row, document
from tests.sim.records import record, result

PAGE = (Path(__file__).parents[2] / "docs" / "operator" / "simulator.md").read_text(encoding="utf-8")


def test_every_option_is_there_and_none_that_does_not_exist() -> None:
    options = set(parser("")._option_string_actions) - {"-h", "--help"}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", PAGE)) == options


def test_every_figure_is_there() -> None:
    (figures,) = document([Row("fifo", summarize(result([record()])))])["runs"]
    assert {name for name in figures if f"`{name}`" not in PAGE} == set()


def test_what_authors_assumed_is_there() -> None:
    table = PAGE.partition("### What `--peer` sets")[2].partition("## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", table, re.MULTILINE))
    peers = {name: each.peer for name, each in formats().items() if each.peer}
    assert rows.keys() == peers.keys()
    for name, peer in peers.items():
        text = rows["gavel"] if "as `gavel`" in rows[name] else rows[name]
        assert peer.cluster is None or peer.cluster in text
        assert peer.round_s is None or f"rounds of {peer.round_s:g} s" in text
        assert (f"{peer.restart_s:g} s a restart" if peer.restart_s else "no restart cost") in text
        assert peer.placement == "consolidate" or f"placement `{peer.placement}`" in text


def test_every_assumption_that_a_request_has_can_be_given() -> None:
    # A field without an option would be an assumption that no user can make.
    options = {name.removeprefix("--").replace("-", "_") for name in parser("")._option_string_actions}
    others = {"policies": "policy", "snapshot": "from"}
    assert {others.get(each.name, each.name.removesuffix("_s")) for each in fields(Arguments)} <= options


def test_the_generated_example_of_the_page_can_be_prepared() -> None:
    example = re.search(r"--generate (\S+) --cluster (\S+) --policy (\S+) --seed 7", PAGE)
    assert example is not None
    generated, cluster, policy = example.groups()
    study = prepare(Arguments(generate=generated, cluster=cluster, policies=(policy,), seed=7))
    assert len(study.trace.jobs) == 200
