"""The delays of waiting jobs, as each decision tells them beside the pending reasons."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from scheduler.engine.cycle import CycleConfig, decide
from scheduler.model import Job, Snapshot
from scheduler.model.delays import DELAY_OF, Delay
from scheduler.model.lifecycle import HoldReason, JobClass
from tests.unit.scheduler.factories import NOW, make_job, make_node, make_running, make_share, make_snapshot, make_vc

STRICT = CycleConfig(policy="fifo", policy_params={"skip_blocked": False})


def test_each_pending_reason_has_a_delay_which_the_page_about_usage_names() -> None:
    assert DELAY_OF.keys() == set(HoldReason)
    page = (Path(__file__).parents[4] / "docs" / "user" / "usage.md").read_text(encoding="utf-8")
    told = {}
    for delay in Delay:
        (row,) = re.findall(rf"^\| {str(delay).replace('_', ' ')} \| (`.*`) \|$", page, re.MULTILINE)
        told |= dict.fromkeys(re.findall(r"`(\w+)`", row), delay)
    assert told == DELAY_OF


def test_behind_the_head_a_job_waits_for_order_only_if_it_would_fit() -> None:
    told = delays_of(pool(6, make_job(1, gpus=4), make_job(2), make_job(3, gpus=3)))
    assert told == {
        1: (HoldReason.NO_FREE_GPUS, Delay.CAPACITY),
        2: (HoldReason.BEHIND_HEAD, Delay.ORDER),
        3: (HoldReason.BEHIND_HEAD, Delay.CAPACITY),
    }


def test_enough_free_gpus_on_several_nodes_are_fragmentation_also_behind_the_head() -> None:
    running = [make_running(make_share(node, range(5)), attempt_id=node) for node in (1, 2)]
    world = make_snapshot(nodes=[make_node(1), make_node(2)], running=running, waiting=[
        make_job(1, gpus=4), make_job(2, gpus=5),
    ])  # fmt: skip
    assert delays_of(world) == {
        1: (HoldReason.FRAGMENTED, Delay.FRAGMENTATION),
        2: (HoldReason.BEHIND_HEAD, Delay.FRAGMENTATION),
    }


def test_a_job_beyond_its_quota_waits_for_its_share_whatever_is_free() -> None:
    head = make_job(1, gpus=8)
    borrows = replace(make_job(2), job_class=JobClass.OPPORTUNISTIC, preemptible=True)
    lacks = make_job(3, vc_id=2, gpus=2)
    world = replace(pool(6, head, borrows, lacks), vcs=(make_vc(), make_vc(2, "speech", quotas={"A100": 1})))
    assert delays_of(world) == {
        1: (HoldReason.NO_FREE_GPUS, Delay.CAPACITY),
        2: (HoldReason.BEHIND_HEAD, Delay.FAIR_SHARE),
        3: (HoldReason.QUOTA_TOO_SMALL, Delay.FAIR_SHARE),
    }


def test_a_job_that_may_not_start_yet_is_not_eligible_even_without_quota() -> None:
    later = replace(make_job(1, gpus=2), eligible_at=NOW + 60)
    world = replace(pool(0, later), vcs=(make_vc(quotas={"A100": 1}),))
    assert delays_of(world) == {1: (HoldReason.QUOTA_TOO_SMALL, Delay.NOT_ELIGIBLE)}


def test_free_gpus_without_cpus_are_fragmentation_and_missing_cpus_alone_are_capacity() -> None:
    world = make_snapshot(nodes=[make_node(1, cpus=4)], running=[make_running(make_share(1, (0,), cpus=3))], waiting=[
        make_job(1, cpus=2), make_job(2, gpus=0, gpu_type=None, cpus=2),
    ])  # fmt: skip
    assert delays_of(world) == {
        1: (HoldReason.CPU_OR_MEMORY, Delay.FRAGMENTATION),
        2: (HoldReason.BEHIND_HEAD, Delay.CAPACITY),
    }


def test_a_pool_without_nodes_has_no_capacity() -> None:
    assert delays_of(make_snapshot(nodes=[], waiting=[make_job(1)])) == {1: (HoldReason.NO_FREE_GPUS, Delay.CAPACITY)}


def pool(used: int, *waiting: Job) -> Snapshot:
    """One node of eight A100, some in use."""
    running = [make_running(make_share(1, range(used)))] if used else []
    return make_snapshot(running=running, waiting=waiting)


def delays_of(world: Snapshot) -> Mapping[int, tuple[HoldReason, Delay | None]]:
    return {hold.job_id: (hold.reason, hold.delay) for hold in decide(world, STRICT).holds}
