"""The meaning of health reports, and that docs/operator/health.md agrees."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeagent.gpu.fatal import FATAL_KINDS, FATAL_XIDS
from scheduler.diagnosis.health import (
    KINDS,
    RECOVERIES,
    RECOVERY_XID,
    UNNAMED_RECOVERY,
    XIDS,
    Action,
    HealthLevel,
    Kind,
    Meaning,
    is_worse,
    meaning_of,
)

DOCUMENT = Path(__file__).parents[4] / "docs" / "operator" / "health.md"

# What NVIDIA asks for, number by number.
ASKED: dict[Action, set[int]] = {
    Action.RESTART_JOB: {13, 31, 94},
    Action.NONE: {43, 45, 63, 92},
    Action.RESET_GPU: {46, 48, 62, 64, 95, 109, 119, 120, 140, 143},
    Action.DRAIN_GPU: {74, 144, 145, 149},
    Action.DRAIN_NODE: {79},
}


@pytest.mark.parametrize(("action", "numbers"), ASKED.items())
def test_each_xid_has_the_action_that_nvidia_asks_for(action: Action, numbers: set[int]) -> None:
    assert {number for number, meaning in XIDS.items() if meaning.action is action} == numbers


def test_a_gpu_that_must_be_reset_or_drained_for_an_xid_has_failed() -> None:
    for meaning in XIDS.values():
        assert (meaning.level is HealthLevel.FAILURE) == (
            meaning.action in {Action.RESET_GPU, Action.DRAIN_GPU, Action.DRAIN_NODE}
        )


@pytest.mark.parametrize(
    ("named", "level", "action"),
    [
        ("0x1 (GPU Reset Required)", HealthLevel.FAILURE, Action.RESET_GPU),
        ("0x2 (Node Reboot Required)", HealthLevel.FAILURE, Action.DRAIN_NODE),
        ("0x3 (Drain P2P)", HealthLevel.FAILURE, Action.DRAIN_GPU),
        ("0x4 (Drain and Reset)", HealthLevel.FAILURE, Action.RESET_GPU),
        ("0x0 (None)", HealthLevel.OK, Action.NONE),
    ],
)
def test_xid_154_means_the_action_that_it_names(named: str, level: HealthLevel, action: Action) -> None:
    said = f"NVRM: Xid (PCI:0000:18:00): 154, GPU recovery action changed from 0x0 (None) to {named}"
    meaning = meaning_of("xid", xid=RECOVERY_XID, detail=said)
    assert (meaning.level, meaning.action) == (level, action)


@pytest.mark.parametrize("said", ["Xid 154", "changed from 0x0 (None) to 0x9 (Sing Required)", "to 0x1 (", ""])
def test_xid_154_without_an_action_is_a_warning(said: str) -> None:
    assert meaning_of("xid", xid=RECOVERY_XID, detail=said) is UNNAMED_RECOVERY


@pytest.mark.parametrize(
    ("kind", "xid", "detail", "like"),
    [
        ("xid", 79, "", XIDS[79]),
        ("xid", 48, "Xid 79", XIDS[48]),
        ("xid", None, "GPU at PCI:0000:01:00 has fallen off the bus", KINDS[Kind.GPU_LOST]),
        ("xid", 9999, "NVRM: GPU 0000:01:00.0: GPU has fallen off the bus.", KINDS[Kind.GPU_LOST]),
        ("gpu_lost", None, "", KINDS[Kind.GPU_LOST]),
        ("throttle", 79, "Xid 79", KINDS[Kind.THROTTLE]),
    ],
)
def test_a_report_counts_by_its_number_then_by_its_words_then_by_its_kind(
    kind: str, xid: int | None, detail: str, like: Meaning
) -> None:
    assert meaning_of(kind, xid=xid, detail=detail) == like


def test_off_the_bus_means_the_same_with_and_without_an_xid() -> None:
    assert KINDS[Kind.GPU_LOST] == XIDS[79]


@given(st.text(max_size=40), st.one_of(st.none(), st.integers()), st.text(max_size=200))
def test_whatever_an_agent_sends_means_something(kind: str, xid: int | None, detail: str) -> None:
    meaning = meaning_of(kind, xid=xid, detail=detail)
    assert meaning.requeues == (meaning.level is HealthLevel.FAILURE)


@given(st.integers().filter(lambda number: number not in XIDS and number != RECOVERY_XID))
def test_an_unknown_xid_has_no_effect(number: int) -> None:
    assert meaning_of("xid", xid=number).level is HealthLevel.OK


def test_agents_start_nothing_on_a_gpu_that_has_failed() -> None:
    failures = {number for number, meaning in XIDS.items() if meaning.level is HealthLevel.FAILURE}
    assert failures == FATAL_XIDS
    assert {kind.value for kind, meaning in KINDS.items() if meaning.level is HealthLevel.FAILURE} == FATAL_KINDS


def test_levels_are_in_order() -> None:
    order = [HealthLevel.OK, HealthLevel.WARNING, HealthLevel.FAILURE]
    for place, one in enumerate(order):
        assert [is_worse(one, other) for other in order] == [place > other for other in range(3)]


def test_the_document_says_what_the_table_says() -> None:
    written = {
        (name.strip("`"), level.strip("`"), action.strip("`"))
        for name, level, action in re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", DOCUMENT.read_text(), re.MULTILINE)
        if level.startswith("`")
    }
    names = {f"Xid {number}": meaning for number, meaning in XIDS.items()}
    names |= {kind.value: meaning for kind, meaning in KINDS.items()} | dict(RECOVERIES)
    known = {(name, meaning.level.value, meaning.action.value) for name, meaning in names.items()}
    rest = {("any other", "ok", "none"), ("any other, or none is found", "warning", "none")}
    assert written == known | rest


def test_the_document_explains_every_level_and_action() -> None:
    text = DOCUMENT.read_text()
    for word in (*HealthLevel, *Action):
        assert re.search(rf"^\| `{word}` \| [^|`]", text, re.MULTILINE), word
