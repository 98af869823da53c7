"""Gavel in a cycle: what it asks of rates and work, what wrong ones do, and the authors' own figures."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from scheduler.engine.cycle import CycleConfig, compose, decide
from scheduler.model import Job, KnownRate, Rate
from scheduler.model.invariants import check
from scheduler.model.plan import Plan
from scheduler.model.snapshot import Snapshot
from scheduler.sim.cluster import parse_cluster
from scheduler.sim.engine import simulate
from scheduler.sim.options import Options
from scheduler.sim.readers import ReadOptions, formats, read_trace
from scheduler.sim.work import FixedWork
from tests.sim.data import data
from tests.sim.stories import ends, job, play
from tests.unit.scheduler.factories import make_job, make_node, make_running, make_share, make_snapshot

NODES = [make_node(1), make_node(2, gpu_type="V100")]
EITHER: dict[str, Any] = {"gpu_type": None, "gpu_types": ("A100", "V100")}


def plan_of(world: Snapshot, **params: Any) -> Plan:
    """The plan of gavel with these parameters."""
    config = CycleConfig(policy="gavel", policy_params=params)
    plan = decide(world, config)
    assert not check(world, plan, compose(config).admission)
    return plan


def rates(**by_type: float) -> tuple[KnownRate, ...]:
    """Rates on one GPU."""
    return tuple(KnownRate(kind, 1, Rate(rate, None, "measured")) for kind, rate in by_type.items())


def types_of(world: Snapshot, **params: Any) -> dict[int, str]:
    """The GPU type that each job gets."""
    kinds = {node.id: node.gpus[0].type for node in world.nodes}
    return {place.job_id: kinds[place.allocations[0].node_id] for place in plan_of(world, **params).places}


def wide(count: int, **fields: Any) -> Job:
    """A job with 8 GPUs of either type."""
    return make_job(count, gpus=8, **EITHER | fields)


def eight(**by_type: float) -> tuple[KnownRate, ...]:
    """Rates on 8 GPUs."""
    return tuple(KnownRate(kind, 8, Rate(rate, None, "measured")) for kind, rate in by_type.items())


@pytest.mark.parametrize("objective", ["max_min", "throughput", "makespan", "cost", "hierarchical"])
def test_the_job_that_gains_more_from_the_fast_type_gets_it(objective: str) -> None:
    slow = wide(1, rates=eight(A100=3.0, V100=2.0), remaining_s=3600.0, expected_s=3600.0)
    fast = wide(2, rates=eight(A100=20.0, V100=2.0), remaining_s=3600.0, expected_s=3600.0)
    found = types_of(make_snapshot(nodes=NODES, waiting=[slow, fast]), objective=objective)
    assert found == {1: "V100", 2: "A100"}


def test_without_rates_all_types_are_alike() -> None:
    found = types_of(make_snapshot(nodes=NODES, waiting=[wide(1), wide(2)]))
    assert sorted(found.values()) == ["A100", "V100"]


@pytest.mark.parametrize("wrong", [math.inf, math.nan, -1.0, 1e300, 1e-300])
@pytest.mark.parametrize("objective", ["max_min", "throughput", "makespan", "finish_time", "cost", "hierarchical"])
def test_a_lying_rate_stops_no_cycle(wrong: float, objective: str) -> None:
    liar = wide(1, rates=eight(A100=wrong, V100=2.0), remaining_s=3600.0)
    honest = wide(2, rates=eight(A100=20.0, V100=2.0), remaining_s=3600.0)
    assert len(types_of(make_snapshot(nodes=NODES, waiting=[liar, honest]), objective=objective)) == 2


def test_cost_gives_a_job_with_a_deadline_the_dear_type_only_if_it_needs_it() -> None:
    params: dict[str, Any] = {"objective": "cost", "prices": {"A100": 10.0}, "idle_gpus": "none"}
    job_ = wide(1, rates=eight(A100=20.0, V100=10.0), remaining_s=3600.0, expected_s=3600.0, expected_rate=10.0)
    for hours, found in ((None, "V100"), (2.0, "V100"), (0.6, "A100")):
        asked = replace(job_, deadline_at=None if hours is None else make_snapshot(nodes=NODES).now + 3600 * hours)
        assert types_of(make_snapshot(nodes=NODES, waiting=[asked]), **params) == {1: found}


def test_a_type_with_rate_zero_is_no_choice() -> None:
    stuck = make_job(1, **EITHER, rates=rates(A100=0.0, V100=2.0))
    found = types_of(make_snapshot(nodes=NODES, waiting=[stuck]), idle_gpus="none")
    assert found == {1: "V100"}


def test_gpus_of_a_job_that_may_not_stop_are_no_supply() -> None:
    world = make_snapshot(
        nodes=[make_node(1)],
        waiting=[make_job(2, gpus=8)],
        running=[make_running(make_share(1, range(8)), preemptible=False)],
    )
    plan = plan_of(world)
    assert not plan.places
    assert not plan.preempts


def test_on_two_types_two_jobs_end_when_the_program_says() -> None:
    # Alone on the fast type job 1 takes 1,000 s and job 2 the same; on the slow one 2,000 s and 10,000 s.
    jobs = [
        job(1, work=FixedWork(1000, rates={"A": 1.0, "B": 0.5})),
        job(2, work=FixedWork(1000, rates={"A": 1.0, "B": 0.1})),
    ]
    result = play(jobs, "A:1x1,B:1x1", policy="gavel", policy_params={"objective": "throughput", "round_s": 10})
    assert ends(result)[2] == pytest.approx(1000)
    assert ends(result)[1] == pytest.approx(1500, abs=10)


def test_two_jobs_that_are_faster_together_share_their_gpus_in_the_next_round() -> None:
    lazy = [job(n, work=FixedWork(100, rates={"A100": 1.0}), gpu_utilization=0.4, gpu_memory_mib=1000) for n in (1, 2)]
    shared = play(lazy, "A100:1x1", policy="gavel", policy_params={"shares_gpus": True, "round_s": 10}, share=True)
    assert ends(shared) == {1: 100, 2: 100}
    busy = [job(n, work=FixedWork(100, rates={"A100": 1.0}), gpu_utilization=1.0, gpu_memory_mib=1000) for n in (1, 2)]
    turns = play(busy, "A100:1x1", policy="gavel", policy_params={"shares_gpus": True, "round_s": 10}, share=True)
    assert max(end or 0.0 for end in ends(turns).values()) == 200


THEIRS = {  # Gavel's own simulator: mean completion time and makespan in hours
    "fifo": ({"objective": "fifo", "idle_gpus": "none"}, 11.18, 25.19, 0.03),
    "max_min": ({}, 9.91, 19.03, 0.03),
    "max_min, agnostic": ({"aware": False}, 10.49, 22.99, 0.08),
    "finish_time": ({"objective": "finish_time"}, 10.09, 19.56, 0.03),
    "makespan": ({"objective": "makespan"}, 17.72, 17.98, 0.03),
    "makespan, agnostic": ({"objective": "makespan", "aware": False}, 19.99, 21.29, 0.03),
    "throughput": ({"objective": "throughput"}, 10.26, 22.49, 0.03),
    "water filling": ({"objective": "hierarchical"}, 9.90, 19.11, 0.03),
    "gandiva": ({"objective": "random_pairs"}, 9.74, 21.11, 0.05),
}


@pytest.mark.parametrize(("params", "jct_h", "makespan_h", "within"), THEIRS.values(), ids=THEIRS)
def test_the_authors_figures_are_reached(
    params: dict[str, Any], jct_h: float, makespan_h: float, within: float
) -> None:
    peer = formats()["gavel"].peer
    assert peer is not None
    folder = data("gavel")
    trace = read_trace(
        folder / "traces" / "minimize_makespan.trace",
        "gavel",
        options=ReadOptions(throughputs=folder / "simulation_throughputs.json"),
    )
    shares = params.get("objective") == "random_pairs"
    options = Options(policy="gavel", policy_params=params, round_s=peer.round_s or 0.0, share=shares)
    result = simulate(trace, parse_cluster(peer.cluster or ""), options)
    jcts = [record.ended_s - record.submitted_s for record in result.records if record.ended_s is not None]
    assert len(jcts) == 100
    assert sum(jcts) / len(jcts) / 3600 == pytest.approx(jct_h, rel=within)
    assert result.makespan_s / 3600 == pytest.approx(makespan_h, rel=within)


@pytest.mark.parametrize(
    ("params", "jct_s", "makespan_s"),
    [({"aware": False}, 11_274.1, 33_207.7), ({"objective": "throughput"}, 9_654.7, 31_909.0)],
    ids=["max_min, agnostic", "throughput"],
)
def test_shockwaves_figures_are_reached_with_batch_sizes_that_change(
    params: dict[str, Any], jct_s: float, makespan_s: float
) -> None:
    peer = formats()["shockwave"].peer
    assert peer is not None
    (path,) = data("shockwave", "traces").glob("120_*.trace")
    trace = read_trace(path, options=ReadOptions(batch_sizes=True))
    like = Options.like(peer, "gavel")
    result = simulate(
        trace, parse_cluster(peer.cluster or ""), replace(like, policy_params={**like.policy_params, **params})
    )
    jcts = [record.ended_s - record.submitted_s for record in result.records if record.ended_s is not None]
    assert len(jcts) == 120
    assert sum(jcts) / len(jcts) == pytest.approx(jct_s, rel=0.03)
    assert result.makespan_s == pytest.approx(makespan_s, rel=0.03)


def test_wrong_rates_change_what_gavel_is_told_and_not_how_fast_jobs_are() -> None:
    jobs = [job(n, gpus=2, work=FixedWork(100.0, {"A100": 2.0, "V100": 1.0})) for n in range(1, 6)]
    told = [ends(play(jobs, "A100:1x2", policy="gavel", rate_noise=noise)) for noise in (0.0, 0.7)]
    assert told[0] == told[1]
    either = [ends(play(jobs, "A100:1x2,V100:1x2", policy="gavel", rate_noise=noise, seed=3)) for noise in (0.7, 0.7)]
    assert either[0] == either[1]
    assert either[0] != ends(play(jobs, "A100:1x2,V100:1x2", policy="gavel"))
