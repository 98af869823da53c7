"""Verdicts on policies: the smallest pools on which they break each property, and what a snapshot leaves to judge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from scheduler.engine.cycle import CycleConfig
from scheduler.engine.policy import POLICIES as POLICIES_BY_NAME
from scheduler.model import Job, Node, Snapshot, Tenant
from scheduler.model.jobs import KnownRate, Rate
from scheduler.sim.fairness import verdicts
from scheduler.sim.judge import Judgement, Parties, Shares, judge
from tests.unit.scheduler.factories import (
    make_job,
    make_node,
    make_packing,
    make_running,
    make_share,
    make_snapshot,
    make_vc,
)

LAS = CycleConfig(policy="las", admission="open")
DRF_OF_TENANTS = CycleConfig(policy="drf", policy_params={"over": "tenant"}, admission="open")
POLICIES = [pytest.param(LAS, id="las"), pytest.param(DRF_OF_TENANTS, id="drf")]
NAMES = {1: "vision", 2: "nlp"}


def job(number: int, *types: str, gpus: int = 1, tenant: int = 1, **fields: Any) -> Job:
    """A waiting job of a tenant, with the same id for its virtual cluster and its owner."""
    owner = {"tenant_id": tenant, "vc_id": tenant, "owner_id": tenant}
    return make_job(number, gpus=gpus, gpu_type=None, gpu_types=types or ("A100",), **owner, **fields)


def pool(nodes: Iterable[Node], waiting: Iterable[Job] = (), quota: int = 99, **fields: Any) -> Snapshot:
    """A pool of two tenants of equal weight."""
    vcs = [
        replace(make_vc(number, name, {"A100": quota, "V100": quota}), tenant_id=number)
        for number, name in NAMES.items()
    ]
    snapshot = make_snapshot(nodes=nodes, waiting=waiting, vcs=vcs, **fields)
    return replace(snapshot, tenants=tuple(Tenant(number, name, 1.0) for number, name in NAMES.items()))


def broken(found: Judgement) -> tuple[bool, bool, bool]:
    """True for each of sharing incentive, Pareto efficiency and envy-freeness that is broken."""
    return bool(found.verdicts.losses), found.verdicts.better is not None, bool(found.verdicts.envies)


@pytest.mark.parametrize("config", POLICIES)
def test_a_job_that_takes_any_type_may_take_the_only_one_of_another(config: CycleConfig) -> None:
    nodes = [make_node(1, gpus=1), make_node(2, gpus=1, gpu_type="V100")]
    world = pool(nodes, [job(1, "A100", "V100"), job(2, "A100", tenant=2)])
    found = judge(world, config)
    assert broken(found) == (True, True, True)
    assert found.sentences() == (
        "tenant nlp holds no GPUs and does the work of 0 GPUs; alone on its share, 0.5 A100 and 0.5 V100, it would do "
        "that of 0.5 GPUs, with job 2",
        "tenant nlp could do the work of 1 GPU instead of 0 GPUs without a loss to another tenant, if job 1 ran on "
        "1 V100 and job 2 ran on 1 A100",
        "tenant nlp would do the work of 1 GPU instead of 0 GPUs with what tenant vision holds, 1 A100",
    )


@pytest.mark.parametrize("config", POLICIES)
def test_a_gang_may_take_all_gpus_from_a_small_job(config: CycleConfig) -> None:
    found = judge(pool([make_node(gpus=2)], [job(1, gpus=2), job(2, tenant=2)]), config)
    assert broken(found) == (True, False, True)


@pytest.mark.parametrize("config", POLICIES)
def test_a_small_job_may_keep_a_tenants_gang_out(config: CycleConfig) -> None:
    found = judge(pool([make_node(gpus=2)], [job(1), job(2, gpus=2)]), config)
    assert broken(found) == (True, True, False)
    assert "without a loss to another tenant, if job 1 waited and job 2 ran on 2 A100" in found.sentences()[1]


def test_a_better_allocation_is_told_by_what_changes() -> None:
    nodes = [make_node(1, gpus=2), make_node(2, gpus=1, gpu_type="V100")]
    found = judge(pool(nodes, [job(1), job(2, "A100", "V100"), job(3, "A100", tenant=2)]), LAS, by=Parties.JOB)
    assert found.sentences()[1].endswith(
        "without a loss to another job, if job 2 ran on 1 V100 and job 3 ran on 1 A100"
    )


HARD = CycleConfig(policy="fifo")


def test_gpus_that_hard_quotas_keep_idle_are_told_with_the_tenant_that_leaves_them() -> None:
    waiting = [job(number, tenant=2) for number in range(1, 9)]
    world = pool([make_node(gpus=6)], waiting, quota=3)
    found = judge(world, HARD, shares=Shares.QUOTA)
    assert broken(found) == (False, True, False)
    assert found.verdicts.kept_by_shares
    assert found.sentences() == (
        "tenant vision leaves 3 A100 of its quota idle that tenant nlp could use for job 4, job 5, job 6 or 2 others: "
        "nlp uses 3 of its 3 A100; this job needs 1",
    )
    assert judge(world, replace(HARD, admission="open"), shares=Shares.QUOTA).verdicts.better is None


def test_idle_gpus_within_the_quotas_are_none_that_quotas_keep() -> None:
    """The first job wants more than is free, and the second waits behind it, though it would fit."""
    run = make_running(make_share(1, range(2)), job=job(1, gpus=2, preemptible=False))
    world = pool([make_node(gpus=4)], [job(2, gpus=3, tenant=2), job(3, gpus=1, tenant=2)], running=[run], quota=4)
    found = judge(world, replace(HARD, policy_params={"skip_blocked": False}), shares=Shares.QUOTA)
    assert found.verdicts.better is not None
    assert not found.verdicts.kept_by_shares
    assert found.sentences()[1].startswith("2 A100 are idle that tenant nlp could use for job 3: ")


@pytest.mark.parametrize("config", POLICIES)
def test_no_smaller_pool_breaks_a_property_that_could_be_kept(config: CycleConfig) -> None:
    # One job gets what it wants; and of two jobs on one GPU, one has nothing under each efficient allocation.
    types = (("A100",), ("V100",), ("A100", "V100"), ("V100", "A100"))
    for a100, v100, accepted, gpus in product((0, 1, 2), (0, 1, 2), types, (1, 2)):
        nodes = [make_node(1, gpus=a100), make_node(2, gpus=v100, gpu_type="V100")]
        assert broken(judge(pool(nodes, [job(1, *accepted, gpus=gpus)]), config)) == (False, False, False)
    for first, second in product(types, types):
        found = judge(pool([make_node(gpus=1)], [job(1, *first), job(2, *second, tenant=2)]), config)
        assert not broken(found)[1]
        one, other = found.parties
        swapped = (replace(one, holds=other.holds), replace(other, holds=one.holds))
        after = verdicts(swapped, {"A100": (1,)})
        kept = not after.losses and not after.envies and after.better is None
        assert not (kept and any(broken(found)))


def test_work_is_counted_by_the_rates_of_a_job() -> None:
    rates = tuple(KnownRate(kind, 2, Rate(rate, None, "measured")) for kind, rate in (("A100", 400.0), ("V100", 100.0)))
    nodes = [make_node(1, gpus=2), make_node(2, gpus=2, gpu_type="V100")]
    slow = job(1, "V100", "A100", gpus=2, rates=rates)
    found = judge(pool(nodes, [slow]), LAS)
    assert found.verdicts.better is not None
    assert found.verdicts.better.values == ((2, 8),)


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        pytest.param(Shares.WEIGHT, {"A100": 4}, id="half of the pool by weight"),
        pytest.param(Shares.QUOTA, {"A100": 3}, id="the quota"),
    ],
)
def test_the_own_share_is_that_of_weight_or_quota(shares: Shares, expected: Mapping[str, float]) -> None:
    world = pool([make_node(gpus=8)], [job(1), job(2, tenant=2)], quota=3)
    assert [party.share for party in judge(world, LAS, shares=shares).parties] == [expected, expected]


def test_the_jobs_of_a_virtual_cluster_have_equal_parts_of_its_quota() -> None:
    world = pool([make_node(gpus=8)], [job(1), job(2), job(3, tenant=2)], quota=3)
    found = judge(world, LAS, by=Parties.JOB, shares=Shares.QUOTA)
    assert [party.share["A100"] for party in found.parties] == [1.5, 1.5, 3]


def test_what_a_preempted_job_gives_up_counts_for_the_job_that_gets_it() -> None:
    run = make_running(make_share(1, range(2)), job=replace(job(1, gpus=2), attained_gpu_s=10_000.0))
    world = pool([make_node(gpus=2)], [job(2, gpus=2, tenant=2)], running=[replace(run, placed_at=0.0)])
    found = judge(world, LAS)
    assert {party.name: party.holds for party in found.parties} == {
        "tenant vision": {},
        "tenant nlp": {"A100": (2,)},
    }


@pytest.mark.parametrize("policy", POLICIES_BY_NAME.names)
def test_each_policy_can_be_judged(policy: str) -> None:
    run = make_running(make_share(1, range(2)), job=job(1, gpus=2))
    world = pool([make_node(gpus=4)], [job(2, tenant=2), job(3, gpus=4, tenant=2)], running=[run])
    found = judge(world, CycleConfig(policy=policy, admission="open"))
    assert [party.name for party in found.parties] == ["tenant vision", "tenant nlp"]


def test_jobs_that_share_a_gpu_are_not_judged() -> None:
    runs = [
        make_running(make_share(1, (0,), slots=32), attempt_id=number, job=make_packing(number)) for number in (1, 2)
    ]
    with pytest.raises(ValueError, match="several jobs hold GPU 100"):
        judge(pool([make_node(gpus=2)], running=runs), LAS)


def test_a_sweep_is_one_application() -> None:
    """Two members of a sweep hold both GPUs; the job beside it would rather have one of them."""
    members = [replace(job(number), group_id=7) for number in (1, 2)]
    world = pool([make_node(1, gpus=2)], [*members, job(3)])
    found = judge(world, CycleConfig(policy="fifo", admission="open"), by=Parties.APPLICATION)
    assert [party.name for party in found.parties] == ["sweep 7", "job 3"]
    assert found.sentences()[0] == (
        "job 3 holds no GPUs and does the work of 0 GPUs; alone on its share, 1 A100, it would do that of 1 GPU"
    )


def test_verdicts_without_time_are_refused() -> None:
    world = pool([make_node(1, gpus=2)], [job(1), job(2)])
    with pytest.raises(TimeoutError):
        judge(world, LAS, remaining_s=lambda: 0.0)
