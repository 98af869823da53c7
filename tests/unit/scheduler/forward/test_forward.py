"""The policy run forward from a snapshot: starts by hand, probes, what it does not reach, and its JSON."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from scheduler.engine.cycle import CycleConfig, decide
from scheduler.forward.answer import ForwardError, Starts, from_json, kind_of, to_json
from scheduler.forward.draws import drawn_left_s, spread_of
from scheduler.forward.probes import MAX_PROBES, probes_of
from scheduler.forward.run import run_forward
from scheduler.model import Job, Reservation, Snapshot
from scheduler.model.lifecycle import AttemptState
from scheduler.model.plan import apply
from scheduler.sim.engine import simulate
from scheduler.sim.options import Options
from scheduler.sim.start import start_of
from tests.unit.scheduler.factories import NOW, make_job, make_node, make_snapshot, make_vc

FIFO = CycleConfig(policy="fifo", policy_params={"skip_blocked": False})


def job(number: int, *, runs: float = 100.0, spread: float = 1.0, **fields: Any) -> Job:
    """A job with a run time that is known to the second, or with quantiles a factor of `spread` apart."""
    known = {"expected_s": runs, "expected_p10_s": runs / spread, "expected_p90_s": runs * spread, "remaining_s": runs}
    return make_job(number, **(known | fields))


def pool(*running: Job, waiting: tuple[Job, ...] = (), **fields: Any) -> Snapshot:
    """A node of four GPUs, on which these jobs have run for 30 seconds."""
    world = make_snapshot(**{"nodes": [make_node(1, gpus=4)], "waiting": list(running)} | fields)
    world = apply(world, decide(world, CycleConfig()))
    began = tuple(replace(run, placed_at=NOW - 30.0) for run in world.running)
    return replace(world, waiting=waiting, running=began)


def starts(world: Snapshot, config: CycleConfig = FIFO, **settings: Any) -> dict[int, float]:
    found = run_forward(world, config, **({"draws": 1} | settings))
    return {job_id: one.p50_s for job_id, one in found.jobs.items()}


def test_known_run_times_give_exact_starts_in_the_order_of_the_policy() -> None:
    queue = (job(2, gpus=2, runs=50), job(3, gpus=4, runs=10), job(4, gpus=1))
    assert starts(pool(job(1, gpus=4, runs=100), waiting=queue)) == {2: 70.0, 3: 120.0, 4: 130.0}
    first = (queue[0], replace(queue[1], priority=5), queue[2])
    assert starts(pool(job(1, gpus=4, runs=100), waiting=first)) == {2: 80.0, 3: 70.0, 4: 80.0}


def test_a_job_waits_for_room_in_its_quota() -> None:
    vcs = [make_vc(1, "one", {"A100": 2}), make_vc(2, "two", {"A100": 2})]
    queue = (job(2, gpus=2), job(3, gpus=2, vc_id=2))
    assert starts(pool(job(1, gpus=2, runs=90), waiting=queue, vcs=vcs)) == {2: 60.0, 3: 0.0}


def test_a_preemptive_policy_starts_a_new_job_at_once_and_the_old_one_goes_on_later() -> None:
    world = pool(job(1, gpus=4, runs=4_000_000, checkpoints=True), waiting=(job(2, gpus=4, runs=50),))
    found = run_forward(world, CycleConfig(policy="srtf"), draws=2)
    assert found.jobs[2] == Starts(1.0, 0.0, 0.0, 0.0)
    short = next(one for kind, one in found.probes.items() if kind.gpus == 4)
    assert short.quick == 1.0


def test_jobs_that_stop_back_off_or_hold_a_reservation_start_in_their_time() -> None:
    world = pool(job(1, gpus=2, grace_s=10.0), job(2, gpus=2, grace_s=20.0))
    queue = (job(3, gpus=2), job(4, gpus=2, eligible_at=NOW + 150.0, requeued_at=NOW - 5.0))
    kept = Reservation(3, world.running_by_job[1].allocations, until=NOW + 600.0)
    stopping = tuple(replace(run, state=AttemptState.STOPPING) for run in world.running)
    found = starts(replace(world, waiting=queue, running=stopping, reservations=(kept,)))
    assert (found[3], found[4]) == (10.0, 150.0)


def test_a_start_later_than_the_horizon_is_unknown_and_not_quick() -> None:
    world = pool(job(1, gpus=4, runs=1000), waiting=(job(2, gpus=4, runs=5000), job(3, gpus=4)))
    found = run_forward(world, FIFO, draws=4, horizon_s=2000.0)
    assert found.jobs == {2: Starts(0.0, 970.0, 970.0, 970.0), 3: Starts(0.0, math.inf, math.inf, math.inf)}
    assert (found.reached, found.horizon_s) == (0.5, 2000.0)


def test_what_the_time_does_not_suffice_for_is_unknown_too_and_the_share_reached_says_so() -> None:
    queue = tuple(job(number, gpus=4, runs=1000) for number in range(2, 12))
    ticks = iter(range(10_000))
    found = run_forward(
        pool(job(1, gpus=4, runs=1000), waiting=queue), FIFO, budget_s=60.0, clock=lambda: float(next(ticks))
    )
    assert 0 < found.reached < 1
    assert found.draws >= 1
    assert found.jobs[11].p50_s == math.inf
    assert found.jobs[2].p50_s == 970.0


def test_the_time_that_a_job_has_waited_counts_for_a_quick_start() -> None:
    world = pool(job(1, gpus=4, runs=130), waiting=(job(2, gpus=4, submitted_at=NOW - 550.0, runs=10),))
    assert run_forward(world, FIFO, draws=1).jobs[2].quick == 0.0
    sooner = replace(world, waiting=(replace(world.waiting[0], submitted_at=NOW - 450.0),))
    assert run_forward(sooner, FIFO, draws=1).jobs[2].quick == 1.0


def test_the_same_seed_gives_the_same_answer_and_another_one_another() -> None:
    queue = tuple(job(number, gpus=4, spread=4.0) for number in range(2, 6))
    world = pool(job(1, gpus=4, spread=4.0), waiting=queue)
    one, again, other = (replace(run_forward(world, FIFO, seed=seed), took_s=0.0) for seed in (1, 1, 2))
    assert one == again != other
    assert one.jobs[5].p10_s < one.jobs[5].p50_s < one.jobs[5].p90_s


@pytest.mark.parametrize(
    "policy", ["backfill", "capacity", "drf", "fair", "fifo", "gandiva", "las", "priority", "sjf", "srtf", "tiresias"]
)
def test_with_known_run_times_jobs_start_as_in_a_simulation_from_the_snapshot(policy: str) -> None:
    """Probes take part in it, and change nothing."""
    draw = Random(policy)
    vcs = [make_vc(1, "one", {"A100": 12}), make_vc(2, "two", {"A100": 8})]

    def drawn(number: int) -> Job:
        runs = float(draw.randint(100, 5_000))
        return job(
            number,
            gpus=draw.choice([1, 1, 2, 4, 8]),
            runs=runs,
            vc_id=draw.randint(1, 2),
            owner_id=draw.randint(1, 4),
            priority=draw.choice([0, 0, 5]),
            time_limit_s=2 * runs,
            checkpoints=True,
        )

    first = [drawn(number) for number in range(1, 8)]
    queue = tuple(drawn(number) for number in range(8, 30))
    world = pool(*first, waiting=queue, vcs=vcs, nodes=[make_node(1, gpus=8), make_node(2, gpus=8)])
    config = CycleConfig(policy=policy)
    start = start_of(world, config, "a pool")
    told = simulate(start.trace, start.cluster, Options.of(config, policy), start=start)
    real = {one.id: one.started_s for one in told.records if one.id >= 8}
    found = run_forward(world, config, draws=1, coarse=0.0, horizon_s=1e9)
    assert {job_id: one.p50_s for job_id, one in found.jobs.items()} == pytest.approx(real)
    assert len(found.probes) > 10


def test_decisions_on_a_growing_grid_move_starts_by_a_few_percent() -> None:
    draw = Random(1)
    drawn = [job(number, runs=float(draw.randint(1_000, 20_000))) for number in range(1, 801)]
    world = pool(*drawn[:200], waiting=tuple(drawn[200:]), nodes=[make_node(number, gpus=8) for number in range(1, 26)])
    exact = run_forward(world, FIFO, draws=1, coarse=0.0, probes=())
    coarse = run_forward(world, FIFO, draws=1, probes=())
    assert exact.jobs != coarse.jobs
    for job_id, one in exact.jobs.items():
        assert coarse.jobs[job_id].p50_s == pytest.approx(one.p50_s, rel=0.05, abs=60.0)


class TestProbes:
    def test_a_job_submitted_now_starts_after_those_before_it_and_takes_nothing_from_them(self) -> None:
        world = pool(job(1, gpus=4, runs=100), waiting=(job(2, gpus=2, runs=50), job(3, gpus=1, runs=200)))
        found = run_forward(world, FIFO, draws=1)
        assert {one: starts.p50_s for one, starts in found.jobs.items()} == {2: 70.0, 3: 70.0}
        by_gpus = {kind.gpus: starts.p50_s for kind, starts in found.probes.items()}
        assert by_gpus == {1: 70.0, 2: 120.0, 4: 270.0}

    def test_a_kind_is_looked_up_in_its_virtual_cluster_by_the_nearest_size(self) -> None:
        world = pool(job(1, gpus=4, runs=100), waiting=(job(2, gpus=2, runs=50),), vcs=[make_vc(1), make_vc(2, "b")])
        found = run_forward(world, FIFO, draws=1)
        kind = kind_of(job(9, gpus=3))
        assert found.of_kind(kind) == found.of_kind(replace(kind, gpus=4))
        assert found.of_kind(replace(kind, vc_id=2, gpus=1)) is not None
        assert found.of_kind(replace(kind, vc_id=3)) is None
        assert found.of_kind(replace(kind, gpu_types=("H100",))) is None

    def test_there_are_a_limited_number_of_them_with_ids_of_their_own(self) -> None:
        queue = tuple(job(number, gpus=1 + number % 4, time_limit_s=10.0**number) for number in range(2, 60))
        vcs = [make_vc(number, f"vc{number}") for number in range(1, 40)]
        found = probes_of(pool(waiting=queue, vcs=vcs))
        assert len(found) == MAX_PROBES
        assert all(probe.id < 0 and kind == kind_of(probe) for kind, probe in found)
        assert not probes_of(pool(vcs=vcs))


class TestRunTimes:
    def test_draws_have_the_quantiles_that_they_are_made_from(self) -> None:
        (drawn,) = drawn_left_s([spread_of(job(1, runs=100.0, spread=3.0), None, NOW)], 2000, seed=1)
        assert np.quantile(drawn, (0.1, 0.5, 0.9)) == pytest.approx((100 / 3, 100, 300), rel=0.01)

    def test_a_job_that_has_run_is_drawn_from_what_is_left_and_its_limit_ends_it(self) -> None:
        world = pool(job(1, gpus=1, runs=100.0, spread=3.0, time_limit_s=500.0))
        run = replace(world.running[0], placed_at=NOW - 100.0)
        (left,) = drawn_left_s([spread_of(run.job, run, NOW)], 2000, seed=1)
        # Of those that take longer than the median, four fifths take at most the p90.
        assert np.quantile(left, 0.8) == pytest.approx(200.0, rel=0.02)
        assert (left.min() >= 1.0, left.max()) == (True, 400.0)

    def test_a_job_that_has_outlived_its_p90_goes_on_about_as_long_as_is_expected_of_it(self) -> None:
        world = pool(job(1, gpus=1, runs=100.0, spread=3.0))
        longer = replace(world.running[0].job, expected_s=4000.0, remaining_s=4000.0)
        run = replace(world.running[0], job=longer, placed_at=NOW - 2500.0)
        (left,) = drawn_left_s([spread_of(longer, run, NOW)], 2000, seed=1)
        assert np.median(left) == pytest.approx(1500.0, rel=0.05)

    @pytest.mark.parametrize("limit_s", [None, 0.0, 1e-9, 1e12])
    @pytest.mark.parametrize("expected_s", [None, 0.0, 1e-9, 1e12])
    def test_no_value_breaks_them(self, limit_s: float | None, expected_s: float | None) -> None:
        odd = make_job(1, expected_s=expected_s, time_limit_s=limit_s, remaining_s=expected_s)
        run = replace(pool(odd).running[0], job=odd)
        left = drawn_left_s([spread_of(odd, None, NOW), spread_of(odd, run, NOW)], 50, seed=1)
        assert np.isfinite(left).all()
        assert (left >= 1.0).all()


class TestTheStoredForm:
    def test_it_is_read_as_it_was_written_up_to_whole_seconds(self) -> None:
        world = pool(job(1, gpus=4, runs=1000), waiting=(job(2, gpus=4, runs=5000), job(3, gpus=4)))
        found = run_forward(world, FIFO, draws=2, horizon_s=2000.0)
        read = from_json(json.loads(json.dumps(to_json(found))))
        assert replace(read, took_s=found.took_s) == found

    @pytest.mark.parametrize("change", [{"version": 0}, {"jobs": []}, {"probes": [[1]]}, {"at": None}])
    def test_another_version_or_a_broken_one_says_so(self, change: dict[str, Any]) -> None:
        data = to_json(run_forward(pool(waiting=(job(2),)), FIFO, draws=1)) | change
        with pytest.raises(ForwardError, match=r"version 0|broken"):
            from_json(data)
