"""The decisions of the agent: tables of cases, and what holds in every history."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeagent.loop.core import (
    LIVE,
    Adopt,
    Allocation,
    Claim,
    Discard,
    EndUnstarted,
    Forget,
    Instruction,
    Limit,
    Miss,
    Settle,
    Stage,
    Stop,
    StopOrder,
    apply,
    reconcile,
    recover,
)
from nodeagent.protocol.messages import Action, DesiredAllocation, EndReason
from nodeagent.runtime.port import Phase
from nodeagent.state.journal import Entry
from tests.profiles import examples

NOW = 1000.0
GRACE_S = 60.0


def wish(action: Action = Action.RUN, **fields: object) -> DesiredAllocation:
    return replace(DesiredAllocation(id=1, fence=5, action=action), **fields)  # type: ignore[arg-type]


def have(stage: Stage = Stage.RUNNING, **fields: object) -> Allocation:
    return replace(Allocation(id=1, fence=5, stage=stage), **fields)  # type: ignore[arg-type]


STOP = wish(Action.STOP, signal="INT", grace_s=3.0, reason="preempted")
ORDER = StopOrder("INT", 3.0)
ORPHAN = StopOrder("TERM", 30.0)

CASES: dict[str, tuple[list[DesiredAllocation], list[Allocation], list[Instruction]]] = {
    "nothing wanted, nothing here": ([], [], []),
    "a new wish is claimed": ([wish()], [], [Claim(1, 5)]),
    "what runs and shall run is left alone": ([wish()], [have()], []),
    "what is being claimed is not claimed again": ([wish()], [have(Stage.CLAIMING)], []),
    "what was refused is not claimed again": ([wish()], [have(Stage.REFUSED)], []),
    "a stop of what was refused is answered": ([STOP], [have(Stage.REFUSED)], [EndUnstarted(1, 5)]),
    "also where it came while it was being claimed": ([STOP], [have(Stage.REFUSED, stop=ORDER)], [EndUnstarted(1, 5)]),
    "what is over is not started again": ([wish()], [have(Stage.EXITED, ended=True, shipped=True)], []),
    "a stop is carried out": ([STOP], [have()], [Stop(1, ORDER, "preempted")]),
    "a stop is carried out while claiming": ([STOP], [have(Stage.CLAIMING)], [Stop(1, ORDER, "preempted")]),
    "the same stop is carried out once": ([STOP], [have(stop=ORDER)], []),
    "a harder stop is passed on": (
        [replace(STOP, grace_s=0.0)],
        [have(stop=ORDER)],
        [Stop(1, StopOrder("INT", 0.0), "preempted")],
    ),
    "a stop of what is over does nothing": ([STOP], [have(Stage.EXITED)], []),
    "a stop of what was never here is answered": ([STOP], [], [EndUnstarted(1, 5)]),
    "an old answer changes nothing": ([wish(Action.STOP, fence=4)], [have()], []),
    "under a newer fence the old one stops": ([wish(fence=6)], [have()], [Stop(1, ORPHAN, "its fence is old")]),
    "under a newer fence what is over makes room": (
        [wish(fence=6)],
        [have(Stage.EXITED, ended=True, shipped=True)],
        [Forget(1)],
    ),
    "a time limit is taken on": ([wish(time_left_s=50.0)], [have()], [Limit(1, 1050.0)]),
    "a time limit that is the same but for the way is left": ([wish(time_left_s=50.0)], [have(limit_at=1051.0)], []),
    "an extension is taken on": ([wish(time_left_s=500.0)], [have(limit_at=1050.0)], [Limit(1, 1500.0)]),
    "a time limit waits for the start": ([wish(time_left_s=50.0)], [have(Stage.STARTING)], []),
    "what is missing is noted": ([], [have()], [Miss(1, NOW)]),
    "what is missing for a moment goes on": ([], [have(missing_since=NOW - 59)], []),
    "what is missing for long stops": (
        [],
        [have(missing_since=NOW - 60)],
        [Stop(1, ORPHAN, "the platform does not know it any more")],
    ),
    "what is back is noted": ([wish()], [have(missing_since=NOW - 59)], [Miss(1, None)]),
    "what was refused and is not wanted is forgotten": ([], [have(Stage.REFUSED)], [Forget(1)]),
    "what is over waits for its end to be known": ([], [have(Stage.EXITED, shipped=True)], []),
    "what is over waits for its log to be known": ([], [have(Stage.EXITED, ended=True)], []),
    "what is over and known is forgotten": ([], [have(Stage.EXITED, ended=True, shipped=True)], [Forget(1)]),
}


@pytest.mark.parametrize("case", CASES)
def test_reconcile(case: str) -> None:
    desired, held, expected = CASES[case]
    assert list(reconcile(desired, {item.id: item for item in held}, NOW, GRACE_S)) == expected


ids = st.integers(1, 4)
wishes = st.builds(
    DesiredAllocation,
    id=ids,
    fence=st.integers(1, 3),
    action=st.sampled_from(Action),
    signal=st.none() | st.sampled_from(["TERM", "INT"]),
    grace_s=st.none() | st.floats(0, 60),
    reason=st.none(),
    time_left_s=st.none() | st.floats(0, 1000),
)
desired_sets = st.lists(wishes, unique_by=lambda item: item.id)
helds = st.builds(
    Allocation,
    id=ids,
    fence=st.integers(1, 3),
    stage=st.sampled_from(Stage),
    stop=st.none() | st.builds(StopOrder, st.just("TERM"), st.floats(0, 60)),
    limit_at=st.none() | st.floats(0, 2000),
    missing_since=st.none() | st.floats(0, NOW),
    ended=st.booleans(),
    shipped=st.booleans(),
)
held_sets = st.lists(helds, unique_by=lambda item: item.id).map(lambda items: {item.id: item for item in items})


@given(desired_sets, held_sets)
def test_nothing_that_may_still_run_is_claimed_or_forgotten(
    desired: list[DesiredAllocation], held: dict[int, Allocation]
) -> None:
    for instruction in reconcile(desired, held, NOW, GRACE_S):
        if isinstance(instruction, Claim):
            assert instruction.id not in held
        if isinstance(instruction, EndUnstarted):
            assert instruction.id not in held or held[instruction.id].stage is Stage.REFUSED
        if isinstance(instruction, Forget):
            assert held[instruction.id].stage not in LIVE or (
                held[instruction.id].ended and held[instruction.id].shipped
            )


@given(desired_sets, held_sets)
def test_only_what_is_wanted_is_claimed_and_only_what_lives_is_stopped(
    desired: list[DesiredAllocation], held: dict[int, Allocation]
) -> None:
    run = {(item.id, item.fence) for item in desired if item.action is Action.RUN}
    for instruction in reconcile(desired, held, NOW, GRACE_S):
        if isinstance(instruction, Claim):
            assert (instruction.id, instruction.fence) in run
        if isinstance(instruction, Stop):
            assert held[instruction.id].stage in LIVE


@given(desired_sets, held_sets)
def test_the_order_of_the_wishes_does_not_matter(desired: list[DesiredAllocation], held: dict[int, Allocation]) -> None:
    assert reconcile(desired, held, NOW, GRACE_S) == reconcile(desired[::-1], held, NOW, GRACE_S)


@given(desired_sets, held_sets)
def test_what_was_done_is_not_done_again(desired: list[DesiredAllocation], held: dict[int, Allocation]) -> None:
    # Forgetting may open the way for a claim, and nothing may follow that.
    for _ in range(2):
        for instruction in reconcile(desired, held, NOW, GRACE_S):
            held = apply(held, instruction)
    assert [item for item in reconcile(desired, held, NOW, GRACE_S) if not isinstance(item, (Claim, Forget))] == []


@settings(max_examples=examples(50))
@given(desired_sets, held_sets)
def test_when_nothing_is_wanted_any_more_everything_is_gone_in_the_end(
    desired: list[DesiredAllocation], held: dict[int, Allocation]
) -> None:
    for instruction in reconcile(desired, held, NOW, GRACE_S):
        held = apply(held, instruction)
    now = NOW
    for _ in range(4):
        now += GRACE_S
        for instruction in reconcile([], held, now, GRACE_S):
            held = apply(held, instruction)
            if isinstance(instruction, Stop):
                stopped = replace(held[instruction.id], stage=Stage.EXITED, ended=True, shipped=True)
                held[instruction.id] = stopped
        held = {
            number: replace(item, ended=True, shipped=True)
            if item.stage is Stage.EXITED or item.stop is not None
            else item
            for number, item in held.items()
        }
    assert held == {}


ENTRY = Entry(id=1, fence=5, boot_id="now")
OVER = Allocation(1, 5, Stage.EXITED)


@pytest.mark.parametrize(
    ("entry", "phase", "expected"),
    [
        (ENTRY, Phase.RUNNING, Adopt(have())),
        (ENTRY, Phase.STARTING, Adopt(have())),
        (ENTRY, Phase.EXITED, Adopt(OVER)),
        (replace(ENTRY, ended=True), Phase.EXITED, Adopt(replace(OVER, ended=True))),
        (replace(ENTRY, ended=True), None, Adopt(replace(OVER, ended=True, shipped=True))),
        (ENTRY, Phase.GONE, Settle(OVER, EndReason.UNKNOWN, "its processes are gone and left no exit status")),
        (ENTRY, None, Settle(OVER, EndReason.NEVER_STARTED, "the agent was restarted before it started")),
        (ENTRY, Phase.ABSENT, Settle(OVER, EndReason.NEVER_STARTED, "the agent was restarted before it started")),
        (
            replace(ENTRY, boot_id="before"),
            Phase.ABSENT,
            Settle(OVER, EndReason.UNKNOWN, "the machine was restarted"),
        ),
        (None, Phase.ABSENT, Discard(1)),
    ],
)
def test_recover(entry: Entry | None, phase: Phase | None, expected: object) -> None:
    entries = {} if entry is None else {1: entry}
    phases = {} if phase is None else {1: phase}
    assert recover(entries, phases, {}, "now") == (expected,)


def test_what_runs_is_adopted_although_the_journal_lost_it() -> None:
    assert recover({}, {1: Phase.RUNNING}, {1: 5}, "now") == (Adopt(have()),)
