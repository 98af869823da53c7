"""Choices of an admission: the nodes of a job, its exact GPUs, and the jobs that it evicts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

import pytest

from scheduler.admission import ADMISSIONS, ANY_GPUS, Admission, AdmissionError, Grant, Ledger
from scheduler.engine.cycle import CycleConfig, Profile, compose, decide_on
from scheduler.engine.state import SchedulerState
from scheduler.model import Job, Snapshot, View
from scheduler.model.invariants import Violation, check
from scheduler.model.lifecycle import HoldReason
from scheduler.model.plan import Denial, Plan
from scheduler.model.request import Config
from scheduler.registry import ConfigError
from tests.unit.scheduler.factories import make_job, make_node, make_running, make_share, make_snapshot, make_vc


class OwnedLedger(Ledger):
    """Virtual cluster 1 owns the nodes with odd ids, virtual cluster 2 those with even ones."""

    def offer(self, job: Job, config: Config) -> Grant | Denial:
        return ANY_GPUS

    def nodes(self, job: Job) -> frozenset[int]:
        return frozenset(node.id for node in self.view.nodes if node.id % 2 == job.vc_id % 2)

    def key(self, job: Job) -> int:
        return job.vc_id


class Owned(Admission):
    def ledger(self, view: View) -> Ledger:
        return OwnedLedger(view)

    def violations(self, view: View, plan: Plan) -> Iterable[Violation]:
        for place in plan.places:
            job = view.waiting_by_id[place.job_id]
            if any(share.node_id % 2 != job.vc_id % 2 for share in place.allocations):
                yield Violation("not_owned", job.id, "it is placed on a node of another virtual cluster")


class ExactLedger(Ledger):
    """Gives what the test says."""

    grants: ClassVar[dict[int, Grant]] = {}

    def offer(self, job: Job, config: Config) -> Grant | Denial:
        return self.grants.get(job.id, ANY_GPUS)


class Exact(Admission):
    chooses_gpus = True

    def ledger(self, view: View) -> Ledger:
        return ExactLedger(view)

    def violations(self, view: View, plan: Plan) -> Iterable[Violation]:
        return ()


POLICIES = [
    "fifo",
    "priority",
    "las",
    "srtf",
    "tiresias",
    "backfill",
    "drf",
    "fair",
    "capacity",
    "tetris",
    "philly",
    "gandiva",
    "optimus",
]


def plan_of(world: Snapshot, admission: Admission, policy: str = "fifo") -> Plan:
    parts = compose(CycleConfig(policy=policy))
    profile = Profile(parts.policy, parts.placement, admission)
    plan = decide_on(SchedulerState(world), profile, max_places=256)
    assert not check(world, plan, admission)
    return plan


def on_nodes(plan: Plan) -> dict[int, set[int]]:
    return {place.job_id: {share.node_id for share in place.allocations} for place in plan.places}


@pytest.mark.parametrize("policy", POLICIES)
def test_each_policy_keeps_to_the_nodes_that_the_admission_allows(policy: str) -> None:
    nodes = [make_node(n, gpus=2) for n in (1, 2, 3, 4)]
    jobs = [make_job(n, vc_id=1 + n % 2, gpus=2, expected_s=60.0, remaining_s=60.0) for n in range(1, 7)]
    world = make_snapshot(nodes=nodes, waiting=jobs, vcs=[make_vc(1), make_vc(2, "speech")])
    plan = plan_of(world, Owned(), policy)
    assert len(plan.places) == 4
    assert all({node % 2 for node in those} == {(1 + job_id % 2) % 2} for job_id, those in on_nodes(plan).items())


def test_a_failure_in_one_virtual_cluster_says_nothing_about_another() -> None:
    nodes = [make_node(1, gpus=1), make_node(2, gpus=2)]
    jobs = [make_job(1, vc_id=1, gpus=2), make_job(2, vc_id=2, gpus=2)]
    world = make_snapshot(nodes=nodes, waiting=jobs, vcs=[make_vc(1), make_vc(2, "speech")])
    assert on_nodes(plan_of(world, Owned())) == {2: {2}}


def test_a_job_whose_nodes_are_full_is_told_so() -> None:
    run = make_running(make_share(1, range(8)))
    world = make_snapshot(nodes=[make_node(1), make_node(2)], waiting=[make_job(1)], running=[run])
    (hold,) = plan_of(world, Owned()).holds
    assert hold.reason is HoldReason.QUOTA
    assert hold.detail == "there is room on 1 node, but none of them is of its virtual cluster"


@pytest.mark.parametrize("policy", [name for name in POLICIES if name not in ("philly", "gandiva")])
def test_a_job_gets_exactly_the_gpus_of_its_grant(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ExactLedger, "grants", {1: Grant(frozenset({103, 105}))})
    job = make_job(1, gpus=2, expected_s=60.0, remaining_s=60.0)
    (place,) = plan_of(make_snapshot(waiting=[job]), Exact(), policy).places
    assert [share.gpu_ids for share in place.allocations] == [(103, 105)]


@pytest.mark.parametrize("policy", ["philly", "gandiva"])
def test_a_policy_that_chooses_gpus_itself_is_refused_beside_such_an_admission(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ADMISSIONS.__dict__, "_classes", {**ADMISSIONS._classes, "exact": Exact})
    with pytest.raises(ConfigError, match=f"policy {policy} and admission exact both choose GPUs"):
        compose(CycleConfig(policy=policy, admission="exact"))


def test_a_gang_gets_its_gpus_on_several_nodes_and_a_lot_in_any_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    granted = frozenset({100, 101, 200, 201})
    monkeypatch.setattr(ExactLedger, "grants", {1: Grant(granted), 2: Grant(frozenset({102, 103, 202}))})
    jobs = [make_job(1, gpus=2, nodes=2), make_job(2, gpus=3, split=True)]
    plan = plan_of(make_snapshot(nodes=[make_node(1), make_node(2)], waiting=jobs), Exact())
    gpus = {place.job_id: [share.gpu_ids for share in place.allocations] for place in plan.places}
    assert gpus == {1: [(100, 101), (200, 201)], 2: [(102, 103), (202,)]}


def test_the_jobs_that_a_grant_evicts_stop_for_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_running(make_share(1, (0, 1)))
    monkeypatch.setattr(ExactLedger, "grants", {1: Grant(frozenset({100, 101}), (run.job.id,))})
    plan = plan_of(make_snapshot(waiting=[make_job(1, gpus=2)], running=[run]), Exact())
    assert [(one.job_id, one.for_job_id) for one in plan.preempts] == [(run.job.id, 1)]
    assert on_nodes(plan) == {1: {1}}


WRONG = {
    "GPUs that do not exist": Grant(frozenset({998, 999})),
    "GPUs that another job holds": Grant(frozenset({100, 101})),
    "too few GPUs": Grant(frozenset({102})),
    "to evict a job that does not run": Grant(None, (77,)),
    "to evict a job that may not stop": Grant(None, (1002,)),
}


@pytest.mark.parametrize("what", WRONG)
def test_an_admission_that_grants_nonsense_is_named(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ExactLedger, "grants", {1: WRONG[what]})
    runs = [make_running(make_share(1, (0,))), make_running(make_share(1, (1,)), attempt_id=2, preemptible=False)]
    with pytest.raises(AdmissionError, match=r"the admission (grants|evicts) job"):
        plan_of(make_snapshot(waiting=[make_job(1, gpus=2)], running=runs), Exact())


def test_a_promise_is_on_nodes_that_the_admission_allows() -> None:
    run = make_running(make_share(1, range(8)), time_limit_s=600.0)
    other = make_running(make_share(2, range(8)), attempt_id=2, time_limit_s=60.0)
    job = make_job(1, gpus=8, time_limit_s=60.0)
    world = make_snapshot(nodes=[make_node(1), make_node(2)], waiting=[job], running=[run, replace(other)])
    (hold,) = plan_of(world, Owned(), "backfill").holds
    assert hold.evidence["starts_by"] == pytest.approx(world.now - 60 + 600, abs=1)
