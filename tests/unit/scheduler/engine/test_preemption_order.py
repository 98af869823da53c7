"""Those that run stand in the order of their keys at any time, though the order was made at another."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.authoring import OrderedPolicy
from scheduler.engine.queue import PreemptionOrder
from scheduler.model import Running
from scheduler.policies.las import Las
from scheduler.policies.srsf import Srsf
from scheduler.policies.srtf import Srtf
from tests.unit.scheduler.factories import NOW, make_job, make_running, make_share

POLICIES: list[OrderedPolicy] = [Las(), Srsf(), Srtf()]


def run(number: int, *, gpus: int, had_s: int, since_s: int, left_s: int, vc: int) -> Running:
    """A running job, with its attained service and the time predicted to be left."""
    job = make_job(
        number, gpus=gpus, vc_id=vc, attained_gpu_s=float(gpus * had_s), expected_s=1e6, remaining_s=float(left_s)
    )
    made = make_running(make_share(1, range(gpus)), attempt_id=number, job=job)
    return replace(made, placed_at=NOW - since_s)


RUNS = st.lists(
    st.builds(
        run,
        st.integers(1, 9),
        gpus=st.sampled_from([1, 2, 4]),
        had_s=st.integers(0, 500),
        since_s=st.integers(0, 500),
        left_s=st.integers(0, 2000),
        vc=st.integers(1, 2),
    ),
    max_size=12,
)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
@given(told=RUNS, gone=st.sets(st.integers(1, 9)), later_s=st.integers(0, 1000))
def test_they_stand_by_their_keys_whenever_it_is_asked(
    policy: OrderedPolicy, told: list[Running], gone: set[int], later_s: int
) -> None:
    standings, live = PreemptionOrder(policy), dict[int, Running]()
    for one in told:
        standings.add(one, NOW)
        live[one.job.id] = one
    for job_id in gone:
        standings.remove(job_id)
        live.pop(job_id, None)
    now = NOW + later_s
    for vc in (None, 1, 2):
        there = [one for one in live.values() if vc in {None, one.job.vc_id}]
        expected = sorted(there, key=lambda one: (policy.running_key(one, now), one.job.id), reverse=True)
        assert list(standings.victims(now, vc)) == expected
