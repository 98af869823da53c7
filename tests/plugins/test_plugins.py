"""Two plug-ins from outside do what they promise, in a decision and in the simulator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler.authoring import Cycle as Decision
from scheduler.authoring import RoundPolicy
from scheduler.engine.context import CycleContext
from scheduler.engine.cycle import CycleConfig, compose, decide
from scheduler.engine.state import SchedulerState
from scheduler.model import KnownRate, Rate
from scheduler.model.invariants import check
from scheduler.model.lifecycle import HoldReason
from scheduler.sim.work import FixedWork
from tests.plugins.installed import installed_plugins
from tests.sim.stories import job, play
from tests.unit.scheduler.factories import make_job, make_node, make_snapshot
from tests.unit.scheduler.factories import make_vc as model_vc

__all__ = ["installed_plugins"]

MAXMIN = CycleConfig(policy="maxmin")


pytestmark = pytest.mark.usefixtures("installed_plugins")


def rates(**by_type: float) -> dict[str, Any]:
    known = tuple(KnownRate(kind, 1, Rate(rate, None, "measured")) for kind, rate in by_type.items())
    return {"gpu_type": None, "gpu_types": ("A100", "V100"), "rates": known}


def test_the_program_gives_each_job_the_type_that_it_gains_most_from() -> None:
    """Job 1 is four times as fast on the A100, job 2 equally fast on both: the A100 goes to job 1."""
    nodes = [make_node(1, gpus=1), make_node(2, gpus=1, gpu_type="V100")]
    jobs = [make_job(1, **rates(A100=4.0, V100=1.0)), make_job(2, **rates(A100=1.0, V100=1.0))]
    world = make_snapshot(nodes=nodes, waiting=jobs)
    parts = compose(MAXMIN)
    context = CycleContext(SchedulerState(world), parts.admission, parts.placement, max_places=9, explain=False)
    assert isinstance(parts.policy, RoundPolicy)
    shares = parts.policy.shares(Decision(context))
    # With an equal share of each type their speeds are 1.25 and 0.5; no shares make both more than twice as fast.
    assert 4 * shares[1]["A100"] + shares[1]["V100"] >= 2 * 1.25 - 1e-6
    assert shares[2]["A100"] + shares[2]["V100"] == pytest.approx(2 * 0.5)
    plan = decide(world, MAXMIN)
    assert {place.job_id: place.allocations[0].node_id for place in plan.places} == {1: 1, 2: 2}


def test_in_the_simulator_the_slowest_job_is_faster_than_in_the_order_of_submission() -> None:
    fast, equal = {"A100": 4.0, "V100": 1.0}, {"A100": 1.0, "V100": 1.0}
    jobs = [job(n, work=FixedWork(1000, rates=equal if n % 2 else fast)) for n in range(1, 5)]
    spans = {policy: play(jobs, "A100:1x2,V100:1x2", policy=policy).makespan_s for policy in ("fifo", "maxmin")}
    assert spans["maxmin"] <= 1000
    assert spans["maxmin"] <= spans["fifo"]


OWNERS = [{"vc": "vision", "nodes": ["node1"]}, {"vc": "speech", "nodes": ["node2", "node3"]}]
OWNED = CycleConfig(admission="owners", admission_params={"owners": OWNERS})


def test_jobs_keep_to_the_nodes_of_their_virtual_cluster_in_the_simulator_and_in_a_decision() -> None:
    world = make_snapshot(
        nodes=[make_node(n, gpus=2) for n in (1, 2, 3, 4)],
        waiting=[make_job(n, gpus=2, vc_id=1 if n < 4 else 2) for n in range(1, 8)],
        vcs=[model_vc(1), model_vc(2, "speech")],
    )
    plan = decide(world, OWNED)
    places = {place.job_id: place.allocations[0].node_id for place in plan.places}
    assert places == {1: 1, 2: 4, 4: 2, 5: 3}  # node 4 has no owner
    assert not check(world, plan, compose(OWNED).admission)
    stolen = replace(plan, places=(replace(plan.places[0], allocations=plan.places[2].allocations),))
    assert [one.message for one in check(world, stolen, compose(OWNED).admission)] == ["node2 is owned by speech"]
    result = play([job(n, gpus=4, runs=100) for n in (1, 2)], "A100:2x4", admission="owners")
    assert [record.ended_s for record in result.records] == [100, 100]


def test_a_job_that_is_larger_than_its_nodes_is_told_so() -> None:
    world = make_snapshot(nodes=[make_node(1, gpus=2), make_node(2)], waiting=[make_job(1, gpus=4)], vcs=[model_vc(1)])
    (hold,) = decide(world, OWNED).holds
    assert hold.reason is HoldReason.QUOTA_TOO_SMALL
    assert hold.detail == "the nodes of its virtual cluster have 2 A100; this job needs 4"
