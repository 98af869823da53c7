"""Decisions on a pool without an event: the same moments in production and in the simulator."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.engine.cycle import CycleConfig, decide
from scheduler.model import Locality, Snapshot
from scheduler.model.plan import apply, release
from tests.sim.stories import ends, job, play
from tests.unit.scheduler.driving import later
from tests.unit.scheduler.factories import NOW, make_job, make_node, make_running, make_share, make_snapshot


def one_gpu(**fields: float) -> Snapshot:
    run = make_running(make_share(1, (0,)), job=make_job(9, **fields))
    return make_snapshot(nodes=[make_node(gpus=1)], waiting=[make_job(1)], running=[replace(run, placed_at=NOW)])


def test_a_pool_without_moments_waits_for_an_event() -> None:
    assert decide(one_gpu(), CycleConfig()).wake_at is None


def test_it_wakes_when_the_policy_may_decide_otherwise_about_a_job() -> None:
    assert decide(one_gpu(), CycleConfig(policy="las", policy_params={"quantum_s": 60})).wake_at == NOW + 60


@pytest.mark.parametrize("quantum_s", [1e9, 1e12, 1e300])
def test_a_moment_that_no_calendar_knows_is_left_to_events(quantum_s: float) -> None:
    assert decide(one_gpu(), CycleConfig(policy="las", policy_params={"quantum_s": quantum_s})).wake_at is None


def test_a_job_that_the_plan_starts_counts_as_running() -> None:
    world = make_snapshot(waiting=[make_job(1)])
    assert decide(world, CycleConfig(policy="las", policy_params={"quantum_s": 60})).wake_at == NOW + 60


def test_it_wakes_at_the_end_of_a_back_off() -> None:
    world = make_snapshot(waiting=[make_job(1, eligible_at=NOW + 30), make_job(2, eligible_at=NOW + 20)])
    assert decide(world, CycleConfig()).wake_at == NOW + 20


def test_it_wakes_when_a_running_job_may_be_resized_again() -> None:
    world = make_snapshot(running=[make_running(make_share(1, (0,)), job=make_job(1, fixed_until=NOW + 600))])
    assert decide(world, CycleConfig()).wake_at == NOW + 600
    assert decide(later(world, NOW + 600), CycleConfig()).wake_at is None


def test_it_wakes_when_a_locality_relaxes() -> None:
    scattered = make_job(1, gpus=4, nodes=2, submitted_at=NOW, locality=Locality.ANY)
    halves = [make_node(n, gpus=4, rack=f"r{n}") for n in (1, 2)]
    config = CycleConfig(placement="relaxing", placement_params={"node_s": 60, "rack_s": 120})
    busy = make_running(make_share(1, range(4)))
    world = make_snapshot(nodes=halves, waiting=[scattered], running=[busy])
    wake_at = decide(world, config).wake_at
    assert wake_at is not None
    assert NOW < wake_at <= NOW + 120


def test_a_policy_that_follows_measurements_looks_again_while_jobs_run() -> None:
    world = make_snapshot(running=[make_running(make_share(1, (0,)))])
    assert decide(world, CycleConfig(policy="gandiva")).wake_at == NOW + 15


def test_decisions_at_these_moments_alone_start_jobs_when_the_simulator_does() -> None:
    config = CycleConfig(policy="las", policy_params={"quantum_s": 60})
    jobs = [make_job(n, submitted_at=NOW) for n in (1, 2)]
    world = make_snapshot(nodes=[make_node(gpus=1)], waiting=jobs)
    starts: list[tuple[int, float]] = []
    for _ in range(5):
        plan = decide(world, config)
        world = apply(world, plan)
        while plan.preempts:  # a stopping job lets go at once
            world = release(world, [one.job_id for one in plan.preempts])
            plan = decide(world, config)
            world = apply(world, plan)
        starts += [(place.job_id, world.now - NOW) for place in plan.places]
        assert plan.wake_at is not None
        world = later(world, plan.wake_at)
    assert starts == [(1, 0), (2, 60), (1, 180)]
    simulated = [job(1, runs=150), job(2, runs=150)]
    assert ends(play(simulated, "A100:1x1", policy="las", policy_params={"quantum_s": 60})) == {1: 270, 2: 300}
