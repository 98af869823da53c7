"""The fair policy divides by weight, serves minimum shares first, and restores shares after a timeout."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from scheduler.engine.cycle import CycleConfig, compose, decide
from scheduler.model import Job, Running, Tenant, VirtualCluster
from scheduler.model.lifecycle import HoldReason
from scheduler.policies.fair.policy import Fair
from scheduler.registry import ConfigError
from tests.unit.scheduler.factories import NOW, make_job, make_snapshot, make_vc
from tests.unit.scheduler.policies.test_capacity import jobs, of_vcs, runs

VCS = [make_vc(1, "a", {}), VirtualCluster(2, 2, "b", {}), VirtualCluster(3, 2, "c", {})]


def config(**params: Any) -> CycleConfig:
    return CycleConfig(policy="fair", policy_params=params, admission="open")


THREE_TO_ONE: list[Mapping[str, object]] = [{"name": "a", "weight": 3}, {"name": "b"}]
MINIMUM: list[Mapping[str, object]] = [{"name": "a", "weight": 3}, {"name": "b", "min_share": 0.5}]
TREE: list[Mapping[str, object]] = [
    {"name": "lab"},
    {"name": "a", "parent": "lab", "weight": 3},
    {"name": "b", "parent": "lab"},
    {"name": "c"},
]
# Eight GPUs.
SHARES: dict[str, tuple[list[Mapping[str, object]], list[Running], list[Job], dict[int, int]]] = {
    "equal weights get equal parts": ([], [], jobs(1, 9) + jobs(2, 9), {1: 4, 2: 4}),
    "weights divide": (THREE_TO_ONE, [], jobs(1, 9) + jobs(2, 9), {1: 6, 2: 2}),
    "a minimum comes before all weights": (MINIMUM, [], jobs(1, 9) + jobs(2, 9), {1: 4, 2: 4}),
    "two minimums are filled at the same rate": (
        [{"name": "a", "min_share": 0.75}, {"name": "b", "min_share": 0.25}],
        [],
        jobs(1, 9) + jobs(2, 9),
        {1: 6, 2: 2},
    ),
    "in a tree the inner queues are compared first": (
        TREE,
        [],
        jobs(1, 9) + jobs(2, 9) + jobs(3, 9),
        {1: 3, 2: 1, 3: 4},
    ),
    "what runs counts": ([], runs(1, range(4)), jobs(1, 4) + jobs(2, 4), {2: 4}),
    "what one does not want is the other's": (THREE_TO_ONE, [], jobs(2, 9), {2: 8}),
    "no queue gets more than its maximum": ([{"name": "a", "max_share": 0.25}], [], jobs(1, 9), {1: 2}),
}


@pytest.mark.parametrize(("rows", "running", "waiting", "expected"), SHARES.values(), ids=SHARES)
def test_free_gpus_go_to_queues_below_their_minimum_and_then_by_weight(
    rows: list[Mapping[str, object]], running: list[Running], waiting: list[Job], expected: dict[int, int]
) -> None:
    world = make_snapshot(vcs=VCS, running=running, waiting=waiting)
    assert of_vcs(world, decide(world, config(queues=rows))) == expected


def test_without_a_row_the_weight_is_that_of_the_tenant() -> None:
    world = make_snapshot(vcs=VCS[:2], waiting=jobs(1, 9) + jobs(2, 9))
    world = replace(world, tenants=(Tenant(1, "lab", 1.0), Tenant(2, "other", 3.0)))
    assert of_vcs(world, decide(world, config())) == {1: 2, 2: 6}


def test_the_reason_of_a_user_at_its_limit_says_so() -> None:
    world = make_snapshot(vcs=VCS, waiting=jobs(1, 1, gpus=3))
    hold = decide(world, config(queues=[{"name": "a", "max_share": 0.25}])).holds[0]
    assert (hold.reason, hold.detail) == (
        HoldReason.QUOTA_TOO_SMALL,
        "queue a may hold 2 A100 at most and holds 0; this job needs 3",
    )


def since(seconds: float) -> dict[str, float]:
    return {"submitted_at": NOW - seconds}


FOUR = (range(2), range(2, 4), range(4, 6), range(6, 8))
HALF: list[Mapping[str, object]] = [{"name": "b", "min_share": 0.25}]
TAKEN: dict[str, tuple[dict[str, Any], list[Running], list[Job], list[int]]] = {
    "below its fair share for long enough": ({}, runs(1, *FOUR), jobs(2, 1, **since(900)), [1013]),
    "not for long enough": ({}, runs(1, *FOUR), jobs(2, 1, **since(899)), []),
    "below its minimum for long enough": ({"queues": HALF}, runs(1, *FOUR), jobs(2, 1, **since(300)), [1013]),
    "not beyond its minimum": ({"queues": HALF}, runs(1, *FOUR), jobs(2, 1, gpus=3, **since(300)), []),
    "not if it has half of its fair share": (
        {},
        runs(1, *FOUR[:3]) + runs(2, FOUR[3]),
        jobs(2, 5, **since(900)),
        [],
    ),
    "but with another threshold": (
        {"fair_share_threshold": 1},
        runs(1, *FOUR[:3]) + runs(2, FOUR[3]),
        jobs(2, 5, **since(900)),
        [1012],
    ),
    "not from one within its fair share": ({"queues": THREE_TO_ONE}, runs(1, range(6)), jobs(2, 3, **since(900)), []),
    "never, if no time is too long": ({"fair_share_timeout_s": None}, runs(1, *FOUR), jobs(2, 1, **since(9e5)), []),
    "no more than the share at a time": ({"preemption_share": 0.2}, runs(1, *FOUR), jobs(2, 1, **since(900)), []),
}


@pytest.mark.parametrize(("params", "running", "waiting", "expected"), TAKEN.values(), ids=TAKEN)
def test_what_is_too_little_for_too_long_is_taken_from_others(
    params: dict[str, Any], running: list[Running], waiting: list[Job], expected: list[int]
) -> None:
    world = make_snapshot(vcs=VCS, running=running, waiting=waiting)
    plan = decide(world, config(**{"preemption_share": 1.0} | params))
    assert [preempt.job_id for preempt in plan.preempts] == expected


CHANGES = {
    "at the end of the first timeout": (since(100), {}, NOW + 200),
    "then at that of the second": (since(300), {}, NOW + 600),
    "then no more": (since(900), {}, None),
    "never without preemption": (since(100), {"preemption_share": 0}, None),
}


@pytest.mark.parametrize(("fields", "params", "expected"), CHANGES.values(), ids=CHANGES)
def test_a_waiting_job_is_looked_at_again(fields: Any, params: Any, expected: float | None) -> None:
    assert Fair(**params).next_change(make_job(1, **fields), None, NOW) == expected


def test_minimum_shares_of_more_than_all_are_refused() -> None:
    with pytest.raises(ConfigError, match="add up to more than 1"):
        compose(config(queues=[{"name": "a", "min_share": 0.6}, {"name": "b", "min_share": 0.6}]))
