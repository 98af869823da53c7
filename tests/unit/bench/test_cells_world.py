"""The pool with virtual clusters on which a decision is timed."""

from __future__ import annotations

import pytest

from bench.cells import make_snapshot
from bench.figures import ADMISSIONS as MEASURED
from scheduler.admission import ADMISSIONS
from scheduler.engine.cycle import CycleConfig, decide
from scheduler.model.invariants import check


def test_each_admission_that_limits_is_measured() -> None:
    assert sorted(MEASURED) == sorted(set(ADMISSIONS.names) - {"open"})


@pytest.mark.parametrize("admission", MEASURED)
def test_all_but_one_node_is_taken_and_something_is_left_to_decide(admission: str) -> None:
    config = CycleConfig(admission=admission)
    snapshot = make_snapshot(config, scale=10)
    assert snapshot == make_snapshot(config, scale=10)
    free = len(snapshot.gpu_by_id) - len(snapshot.holders_of_gpu)
    assert 8 <= free <= 0.1 * len(snapshot.gpu_by_id)
    plan = decide(snapshot, config)
    assert plan.places
    assert not check(snapshot, plan, ADMISSIONS.make(admission, {}))
