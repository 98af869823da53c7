"""sinfo against the texts of a real one: `sinfo-22.05.8.txt` has what it printed of the cluster that is built here."""

from __future__ import annotations

import re
import shlex
from datetime import UTC, datetime
from pathlib import Path

import pytest

from muster.accounts.models import User
from muster.sbatch.site import Partition
from muster.slurm.call import Answer, Call, Refused
from muster.slurm.options import parse
from muster.slurm.sinfo.command import OPTIONS, shown
from muster.slurm.sinfo.nodes import NodeLine, Place
from muster.slurm.sinfo.states import Base, NodeState

RECORD = Path(__file__).with_name("sinfo-22.05.8.txt")
AT = datetime(2026, 11, 28, 15, 18, 36, tzinfo=UTC)
DATE = re.compile(r"^\w{3} Nov .*2026\n", re.MULTILINE)
SINCE = re.compile(r"^\w{3} \w{3} \d\d \d\d:\d\d:\d\d \d{4}\n")


def node(name: str, state: NodeState, features: str, reason: str = "", *, cpus: int = 0, memory: int = 0) -> NodeLine:
    return NodeLine(
        name=name,
        state=state,
        cpus=16,
        cpus_held=cpus,
        memory_mib=65536,
        memory_held_mib=memory,
        gpus=(("a100", 4),),
        gpus_held=(("a100", (0, 1, 2, 3)),) if cpus == 16 else (),
        features=tuple(features.split(",")),
        reason=reason,
        reason_by="root" if reason else "",
        reason_at=AT if reason else None,
    )


NODES = (
    node("n1", NodeState(Base.MIXED, drain=True), "a100,nvlink,ib", "bad disk", cpus=2, memory=4096),
    node("n2", NodeState(Base.IDLE), "a100,nvlink,ib"),
    node("n3", NodeState(Base.DOWN), "a100,ib", "kernel panic"),
    node("n4", NodeState(Base.ALLOCATED, drain=True), "a100", "GPU 3 fell off", cpus=16, memory=32768),
)


def place(name: str, limit_min: int, default_min: int, *, max_nodes: int | None = None) -> Place:
    partition = Partition(name, (), (), time_min=default_min, max_time_min=limit_min, max_nodes=max_nodes)
    return Place(partition, name == "gpu", NODES)


PLACES = (place("gpu", 3 * 1440, 60), place("debug", 30, 10, max_nodes=2), place("cpu", 7 * 1440, 60))


def run(*arguments: str, places: tuple[Place, ...] = PLACES, **environment: str) -> Answer:
    call = Call(User(username="ada"), arguments, environment)
    try:
        return shown(parse("sinfo", arguments, OPTIONS), call, places)
    except Refused as refused:
        return refused.answer


def recorded() -> list[tuple[str, Answer]]:
    found = []
    for block in re.split(r"^\$ sinfo ?", RECORD.read_text(), flags=re.MULTILINE)[1:]:
        command, _, text = block.partition("\n")
        out, _, code = text.rpartition("rc=")
        lines = out.splitlines(keepends=True)
        errors = "".join(line.removeprefix("ERR ") for line in lines if line.startswith("ERR "))
        found.append((command, Answer("".join(x for x in lines if not x.startswith("ERR ")), errors, int(code))))
    return found


@pytest.mark.parametrize(("command", "expected"), recorded(), ids=[command or "alone" for command, _ in recorded()])
def test_the_table_is_that_of_slurm(command: str, expected: Answer) -> None:
    found = run(*shlex.split(command))
    # The date above a long table is that of the call, and Slurm lists states that no node here is ever in.
    assert SINCE.sub("", found.stdout) == DATE.sub("", expected.stdout)
    assert re.sub("states: .*", "", found.stderr) == re.sub("states: .*", "", expected.stderr)
    assert found.exit_code == expected.exit_code


def test_a_long_table_begins_with_the_time() -> None:
    assert SINCE.match(run("-l").stdout)
    assert not SINCE.match(run("-lh").stdout)


def test_columns_of_names_are_as_wide_as_the_longest() -> None:
    wide = Place(Partition("averyverylongname", (), ()), False, NODES[:1])
    assert run(places=(wide,)).stdout == (
        "PARTITION         AVAIL  TIMELIMIT  NODES  STATE NODELIST\n"
        "averyverylongname    up   infinite      1   drng n1\n"
    )


def test_nodes_that_do_not_answer_come_first_with_a_star() -> None:
    states = [NodeState(base) for base in (Base.IDLE, Base.ALLOCATED, Base.MIXED)]
    states += [NodeState(Base.IDLE, silent=True), NodeState(Base.IDLE, planned=True)]
    nodes = tuple(NodeLine(f"n{number}", state) for number, state in enumerate(states))
    shown = run("-h", "-o", "%t", places=(Place(Partition("gpu", (), ()), True, nodes),)).stdout
    assert shown.split() == ["idle*", "mix", "alloc", "idle", "plnd"]
    assert run("-h", "-t", "idle", "-o", "%D", places=(Place(Partition("gpu", (), ()), True, nodes),)).stdout == "3\n"


def test_the_environment_gives_the_format_and_the_partition() -> None:
    assert run("-h", "-n", "n2", SINFO_FORMAT="%N|%P", SINFO_PARTITION="cpu").stdout == "n2|cpu\n"
    assert run("-h", "-n", "n2", "-o", "%N", SINFO_FORMAT="%N|%P").stdout == "n2\n"


def test_states_are_chosen_by_what_lies_below_a_drain_too() -> None:
    states = (NodeState(Base.MIXED), NodeState(Base.IDLE), NodeState(Base.IDLE, drain=True))
    nodes = tuple(NodeLine(name, state) for name, state in zip(("n1", "n2", "n3"), states, strict=True))
    places = (Place(Partition("gpu", (), ()), True, nodes),)
    chosen = {
        state: run("-h", "-t", state, "-o", "%N|%t", places=places).stdout.split()
        for state in ("idle", "alloc", "mix", "drain", "drained", "draining")
    }
    assert chosen == {
        "idle": ["n3|drain", "n2|idle"],
        "alloc": ["n1|mix"],
        "mix": ["n1|mix"],
        "drain": ["n3|drain"],
        "drained": ["n3|drain"],
        "draining": [],
    }
