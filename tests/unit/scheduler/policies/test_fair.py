"""The fair policy divides by weight, serves minimum shares first, and restores shares after a timeout."""

from dataclasses import replace
from math import log
from typing import Any

import pytest

from scheduler.engine.cycle import CycleConfig, decide
from scheduler.model import Job, Organisation, Running, Tenant, VirtualCluster
from scheduler.model.lifecycle import HoldReason
from scheduler.policies.fair import Fair
from tests.unit.scheduler.factories import NOW, make_job, make_snapshot, make_vc
from tests.unit.scheduler.policies.test_capacity import jobs, of_vcs, runs

VCS = [make_vc(1, "a", {}), VirtualCluster(2, 2, "b", {}), VirtualCluster(3, 2, "c", {})]


def config(**params: Any) -> CycleConfig:
    return CycleConfig(policy="fair", policy_params=params, admission="open")


def leaf(vc_id: int, name: str, gpus: int = 0, tenant_id: int = 1, **fields: Any) -> VirtualCluster:
    return VirtualCluster(vc_id, tenant_id, name, {"A100": gpus}, **fields)


THREE_TO_ONE = [leaf(1, "a", weight=3), leaf(2, "b")]
MINIMUM = [leaf(1, "a", weight=3), leaf(2, "b", 4)]
TREE = [leaf(1, "a", weight=3), leaf(2, "b"), leaf(3, "c", tenant_id=2)]
# Eight GPUs.
SHARES: dict[str, tuple[list[VirtualCluster], list[Running], list[Job], dict[int, int]]] = {
    "equal weights get equal parts": (VCS, [], jobs(1, 9) + jobs(2, 9), {1: 4, 2: 4}),
    "weights divide": (THREE_TO_ONE, [], jobs(1, 9) + jobs(2, 9), {1: 6, 2: 2}),
    "a minimum comes before all weights": (MINIMUM, [], jobs(1, 9) + jobs(2, 9), {1: 4, 2: 4}),
    "two minimums are filled at the same rate": (
        [leaf(1, "a", 6), leaf(2, "b", 2)],
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
    "what runs counts": (VCS, runs(1, range(4)), jobs(1, 4) + jobs(2, 4), {2: 4}),
    "what one does not want is the other's": (THREE_TO_ONE, [], jobs(2, 9), {2: 8}),
    "no queue gets more than its maximum": ([leaf(1, "a", borrowing={"A100": 2})], [], jobs(1, 9), {1: 2}),
}


@pytest.mark.parametrize(("vcs", "running", "waiting", "expected"), SHARES.values(), ids=SHARES)
def test_free_gpus_go_to_queues_below_their_minimum_and_then_by_weight(
    vcs: list[VirtualCluster], running: list[Running], waiting: list[Job], expected: dict[int, int]
) -> None:
    world = make_snapshot(vcs=vcs, running=running, waiting=waiting)
    assert of_vcs(world, decide(world, config(nominal_minimum=True))) == expected


def test_nominal_shares_are_minimums_only_if_the_policy_is_told_so() -> None:
    world = make_snapshot(vcs=MINIMUM, waiting=jobs(1, 9) + jobs(2, 9))
    assert of_vcs(world, decide(world, config())) == {1: 6, 2: 2}


def test_tenants_are_compared_by_their_weights() -> None:
    world = make_snapshot(vcs=VCS[:2], waiting=jobs(1, 9) + jobs(2, 9))
    world = replace(world, tenants=(Tenant(1, "lab", 1.0), Tenant(2, "other", 3.0)))
    assert of_vcs(world, decide(world, config())) == {1: 2, 2: 6}


def test_organisations_are_compared_before_their_tenants() -> None:
    world = make_snapshot(vcs=VCS, waiting=jobs(1, 9) + jobs(2, 9) + jobs(3, 9))
    tenants = (Tenant(1, "lab", 1.0, 1), Tenant(2, "other", 5.0, 2))
    organisations = (Organisation(1, "institute", 3.0), Organisation(2, "company", 1.0))
    world = replace(world, tenants=tenants, organisations=organisations)
    assert of_vcs(world, decide(world, config())) == {1: 6, 2: 1, 3: 1}


def test_past_use_counts_with_a_half_life() -> None:
    # As if virtual cluster 1 had held four of eight GPUs all the time: it is even once 2 holds four more.
    past = leaf(1, "a", past_gpu_s=4 * 3600 / log(2))
    world = make_snapshot(vcs=[past, leaf(2, "b")], waiting=jobs(1, 9) + jobs(2, 9))
    assert of_vcs(world, decide(world, config(half_life_h=1))) == {1: 2, 2: 6}
    assert of_vcs(world, decide(world, config())) == {1: 4, 2: 4}


def test_the_reason_of_a_user_at_its_limit_says_so() -> None:
    world = make_snapshot(vcs=[leaf(1, "a", borrowing={"A100": 2})], waiting=jobs(1, 1, gpus=3))
    hold = decide(world, config()).holds[0]
    assert (hold.reason, hold.detail) == (
        HoldReason.QUOTA_TOO_SMALL,
        "queue a may hold 2 A100 at most and holds 0; this job needs 3",
    )


def since(seconds: float) -> dict[str, float]:
    return {"submitted_at": NOW - seconds}


FOUR = (range(2), range(2, 4), range(4, 6), range(6, 8))
HALF = {"vcs": [leaf(1, "a"), leaf(2, "b", 2)], "nominal_minimum": True}
TAKEN: dict[str, tuple[dict[str, Any], list[Running], list[Job], list[int]]] = {
    "below its fair share for long enough": ({}, runs(1, *FOUR), jobs(2, 1, **since(900)), [1013]),
    "not for long enough": ({}, runs(1, *FOUR), jobs(2, 1, **since(899)), []),
    "below its minimum for long enough": (HALF, runs(1, *FOUR), jobs(2, 1, **since(300)), [1013]),
    "not beyond its minimum": (HALF, runs(1, *FOUR), jobs(2, 1, gpus=3, **since(300)), []),
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
    "not from one within its fair share": ({"vcs": THREE_TO_ONE}, runs(1, range(6)), jobs(2, 3, **since(900)), []),
    "never, if no time is too long": ({"fair_share_timeout_s": None}, runs(1, *FOUR), jobs(2, 1, **since(9e5)), []),
    "no more than the share at a time": ({"preemption_share": 0.2}, runs(1, *FOUR), jobs(2, 1, **since(900)), []),
}


@pytest.mark.parametrize(("params", "running", "waiting", "expected"), TAKEN.values(), ids=TAKEN)
def test_what_is_too_little_for_too_long_is_taken_from_others(
    params: dict[str, Any], running: list[Running], waiting: list[Job], expected: list[int]
) -> None:
    params = {"vcs": VCS, "preemption_share": 1.0} | params
    world = make_snapshot(vcs=params.pop("vcs"), running=running, waiting=waiting)
    plan = decide(world, config(**params))
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
