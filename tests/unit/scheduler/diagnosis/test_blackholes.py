"""Black-hole nodes are told apart from jobs that fail on every node."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.diagnosis.blackholes import Judgement, NodeRun, Opinion, judge

QUICK_S = 10.0


def failed(job: int, kind: str = "train", ran_s: float = 3.0) -> NodeRun:
    return NodeRun(job, kind, ran_s, failed=True)


def goes_on(job: int, kind: str = "train") -> NodeRun:
    return NodeRun(job, kind, ran_s=100.0)


def succeeded(job: int, kind: str = "train") -> NodeRun:
    return NodeRun(job, kind, ran_s=2.0, succeeded=True)


def young(job: int) -> NodeRun:
    return NodeRun(job, "train", ran_s=1.0)


def look(here: list[NodeRun], elsewhere: list[NodeRun]) -> Opinion:
    return judge(here, elsewhere, in_a_row=3, quick_s=QUICK_S).opinion


THREE = [failed(3), failed(2), failed(1)]
MIXED = [failed(3, "eval"), failed(2), failed(1)]

CASES = {
    "the same command does well elsewhere": (THREE, [goes_on(9), succeeded(8)], Opinion.BLACK_HOLE),
    "it fails elsewhere too, but rarely": (THREE, [goes_on(9), failed(8), succeeded(7)], Opinion.BLACK_HOLE),
    "one of several commands does well elsewhere": (MIXED, [goes_on(9, "eval")], Opinion.BLACK_HOLE),
    "what is too young to tell lies between": (
        [young(5), failed(3), young(4), failed(2), failed(1)],
        [goes_on(9)],
        Opinion.BLACK_HOLE,
    ),
    "more than three failed": ([failed(5), *THREE, failed(0)], [goes_on(9)], Opinion.BLACK_HOLE),
    "nothing is known of other nodes": (THREE, [], Opinion.SUSPECT),
    "only other commands do well elsewhere": (THREE, [goes_on(9, "other")], Opinion.SUSPECT),
    "only other commands fail elsewhere": (THREE, [failed(9, "other")], Opinion.SUSPECT),
    "elsewhere it is too young to tell": (THREE, [young(9)], Opinion.SUSPECT),
    "it fails elsewhere as often as not": (THREE, [failed(9), goes_on(8)], Opinion.SOUND),
    "it fails everywhere": (THREE, [failed(9)], Opinion.SOUND),
    "only two failed": (THREE[:2], [goes_on(9)], Opinion.SOUND),
    "one job failed three times": ([failed(1), failed(1), failed(1)], [goes_on(9)], Opinion.SOUND),
    "the last one does well": ([goes_on(4), *THREE], [goes_on(9)], Opinion.SOUND),
    "one between them succeeded": ([failed(3), succeeded(4), failed(2), failed(1)], [goes_on(9)], Opinion.SOUND),
    "they failed after a while": ([failed(n, ran_s=60.0) for n in (3, 2, 1)], [goes_on(9)], Opinion.SOUND),
    "nothing was here": ([], [goes_on(9)], Opinion.SOUND),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_thought_of_a_node_where(case: str) -> None:
    here, elsewhere, opinion = CASES[case]
    assert look(here, elsewhere) is opinion


def test_the_judgement_has_its_evidence() -> None:
    assert judge(THREE, [goes_on(9), goes_on(7), failed(8), goes_on(6, "other")], in_a_row=3, quick_s=10) == Judgement(
        Opinion.BLACK_HOLE, jobs=(3, 2, 1), well_elsewhere=2, quick_elsewhere=1
    )


_node_runs = st.builds(
    NodeRun, job=st.integers(0, 30), kind=st.sampled_from("ab"), ran_s=st.floats(0, 30), failed=st.booleans()
)
_many = st.lists(_node_runs, max_size=12)


@given(here=_many, elsewhere=_many, in_a_row=st.integers(1, 5))
def test_where_as_many_fail_at_once_as_go_on_no_node_is_to_blame(
    here: list[NodeRun], elsewhere: list[NodeRun], in_a_row: int
) -> None:
    doubled = elsewhere + [failed(100 + n, run.kind) for n, run in enumerate(elsewhere)]
    assert judge(here, doubled, in_a_row=in_a_row, quick_s=QUICK_S).opinion is not Opinion.BLACK_HOLE


@given(here=_many, elsewhere=_many)
def test_a_job_that_goes_on_clears_the_node(here: list[NodeRun], elsewhere: list[NodeRun]) -> None:
    assert look([goes_on(99), *here], elsewhere) is Opinion.SOUND
