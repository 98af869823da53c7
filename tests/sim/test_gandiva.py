"""Gandiva in the simulator: turns at exact times, equal time among equals, moves, growth, and an end for everything."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.sim.result import Result
from scheduler.sim.trace import TraceJob
from scheduler.sim.work import Layout
from tests.profiles import examples
from tests.sim.stories import by_id, ends, job, play


def gandiva(
    jobs: list[TraceJob], cluster: str = "A100:1x1", params: Mapping[str, Any] | None = None, **options: Any
) -> Result:
    return play(jobs, cluster, policy="gandiva", policy_params=params or {}, audit_every=1, **options)


@dataclass(frozen=True)
class Linear:
    """Work that goes twice as fast on twice the GPUs; progress is GPU-seconds."""

    gpu_s: float
    most: int

    def seconds_left(self, done: float, gpu_type: str, layout: Layout, speed: float) -> float:
        return (self.gpu_s - done) / (sum(layout) * speed)

    def advance(self, done: float, gpu_type: str, layout: Layout, speed: float, seconds: float) -> float:
        return min(self.gpu_s, done + seconds * sum(layout) * speed)

    def remaining_s(self, done: float) -> float:
        return self.gpu_s - done

    def alone_s(self) -> float:
        return self.gpu_s

    def speeds(self) -> tuple[float, ...]:
        return tuple(map(float, range(1, self.most + 1)))


@dataclass(frozen=True)
class Scattered(Linear):
    """Work that two GPUs of one node do at half the speed of two that are apart; progress is seconds apart."""

    most: int = 0

    def seconds_left(self, done: float, gpu_type: str, layout: Layout, speed: float) -> float:
        return (self.gpu_s - done) / (speed * self._factor(layout))

    def advance(self, done: float, gpu_type: str, layout: Layout, speed: float, seconds: float) -> float:
        return min(self.gpu_s, done + seconds * speed * self._factor(layout))

    def _factor(self, layout: Layout) -> float:
        return 0.5 if len(layout) == 1 else 1.0


@dataclass(frozen=True)
class Wrong(Linear):
    """Work that is said to be twice as fast on twice the GPUs, and is half as fast there."""

    def seconds_left(self, done: float, gpu_type: str, layout: Layout, speed: float) -> float:
        return (self.gpu_s - done) * sum(layout) / speed

    def advance(self, done: float, gpu_type: str, layout: Layout, speed: float, seconds: float) -> float:
        return min(self.gpu_s, done + seconds * speed / sum(layout))


TURNS: Mapping[str, tuple[list[TraceJob], str, dict[str, Any], Mapping[int, float]]] = {
    "two jobs take turns of a minute, from the end of the first one's minute on": (
        # 1 runs 0-60, 120-180, 240-300, ...; 2 has its 120 s by 240, and 1 goes on alone.
        [job(1, runs=300), job(2, at=5, runs=120)],
        "A100:1x1",
        {},
        {1: 420, 2: 240},
    ),
    "one that comes when a turn is over long since begins at once": (
        [job(1, runs=300), job(2, at=100, runs=30)],
        "A100:1x1",
        {},
        {1: 330, 2: 130},
    ),
    "of three on two GPUs one rests for a turn, in a row": (
        [job(1, runs=120), job(2, runs=120), job(3, runs=120)],
        "A100:1x2",
        # 0: 1 2, 60: 3 2, 120: 2 is done, and 1 goes on where it was.
        {},
        {1: 180, 2: 120, 3: 180},
    ),
    "a turn is as long as is said": (
        [job(1, runs=20), job(2, runs=20)],
        "A100:1x1",
        {"slice_s": 10},
        {1: 30, 2: 40},
    ),
    "without turns the second waits for the end of the first": (
        [job(1, runs=300), job(2, runs=10)],
        "A100:1x1",
        {"slice_s": None},
        {1: 300, 2: 310},
    ),
    "a wide job gets the GPUs of two whose turns end at different times once both are over": (
        # Lots of two and one at a time would be of two affinities; these are of one: 2 GPUs each, 4 in all.
        [job(1, gpus=2, runs=200), job(2, at=30, gpus=2, runs=200), job(3, at=40, gpus=2, runs=60)],
        "A100:1x4",
        {},
        # 3 takes the place of 1 at 60 and ends at 120; 2 never competes with another job.
        {1: 260, 2: 230, 3: 120},
    ),
}


@pytest.mark.parametrize(("jobs", "cluster", "params", "expected"), TURNS.values(), ids=list(TURNS))
def test_turns_begin_and_end_at_exact_times(
    jobs: list[TraceJob], cluster: str, params: dict[str, Any], expected: Mapping[int, float]
) -> None:
    assert ends(gandiva(jobs, cluster, params)) == expected


def test_each_slice_pays_a_restart_and_is_longer_if_the_policy_knows_its_cost() -> None:
    jobs = [job(1, runs=100), job(2, runs=100)]
    told = by_id(gandiva(jobs, params={"slice_s": 50, "restart_s": 10}, restart_s=10))
    # TimeSlices of 60 s with 50 s of work: 1 runs 0-60 and 120-180, 2 runs 60-120 and 180-240.
    assert (told[1].ended_s, told[2].ended_s) == (180, 240)
    assert told[1].overhead_gpu_s == 20
    untold = by_id(gandiva(jobs, params={"slice_s": 50}, restart_s=10))
    assert untold[1].overhead_gpu_s == 30


def test_a_slice_is_handed_over_after_the_grace_period() -> None:
    result = by_id(gandiva([job(1, runs=90), job(2, runs=30)], grace_s=5))
    # 1 stops at 60 and lets go at 65; 2 runs 65-95, and 1 has its last 30 s after that.
    assert (result[2].ended_s, result[1].ended_s) == (95, 125)


@pytest.mark.parametrize(("introspect_s", "moves", "ended_s"), [(200, 1, 700), (None, 0, 1100)])
def test_a_scattered_job_is_brought_together_once_there_is_room(
    introspect_s: float | None, moves: int, ended_s: float
) -> None:
    jobs = [
        job(1, runs=100),
        job(2, runs=2000),
        job(3, runs=150),  # on the other node
        job(4, at=50, gpus=2, runs=500),
    ]
    result = by_id(gandiva(jobs, "A100:2x2", {"introspect_s": introspect_s}, spread_penalty=0.5))
    # From 100 on it lies on both nodes, at half speed. From 150 on there is room for it on one; it is moved at 300.
    assert (result[4].moves, result[4].ended_s) == (moves, ended_s)


@pytest.mark.parametrize("grace_s", [0, 5])
def test_jobs_are_moved_to_make_room_for_a_gang_when_others_end(grace_s: float) -> None:
    # Four jobs of two on two nodes; when one on each ends, the others move together for a gang of four.
    jobs = [
        job(1, gpus=2, runs=1000),
        job(2, gpus=2, runs=400),
        job(3, gpus=2, runs=1000),
        job(4, gpus=2, runs=400),
        job(5, at=10, gpus=4, runs=100, split=False),
    ]
    result = by_id(gandiva(jobs, "A100:2x4", grace_s=grace_s))
    assert sum(record.moves for record in result.values()) == 1
    assert result[5].ended_s == 400 + grace_s + 100
    waits = by_id(gandiva(jobs, "A100:2x4", {"introspect_s": None}, grace_s=grace_s))
    assert waits[5].ended_s == 1100


def test_an_elastic_job_grows_when_others_have_gone_and_shrinks_when_one_comes() -> None:
    grower = TraceJob(id=1, name="grower", submitted_s=0, gpus=1, work=Linear(1000, 4), max_gpus=4)
    jobs = [grower, job(2, gpus=3, runs=100), job(3, at=250, gpus=2, runs=1000)]
    result = by_id(gandiva(jobs, "A100:1x4", {"grow_after_s": 50}))
    # 150 s on one GPU, 100 s on four, and from 250 on what is left, 450 GPU-seconds: on one GPU until 300, when the
    # one that is idle beside it has been so for 50 s, then on two.
    assert result[3].started_s == 250
    assert result[1].ended_s == 300 + 400 / 2
    assert result[1].moves == 3
    assert ends(gandiva(jobs, "A100:1x4"))[1] == 1000


@pytest.mark.parametrize("grace_s", [0, 5])
@pytest.mark.parametrize(("trial_s", "moves", "ended_s"), [(50, 2, 350 + 475), (None, 1, 300 + 2 * 500)])
def test_a_job_that_is_slower_where_it_was_moved_goes_back(
    trial_s: float | None, moves: int, ended_s: float, grace_s: float
) -> None:
    jobs = [
        job(1, runs=100),
        job(2, runs=2000),
        job(3, runs=150),  # on the other node
        TraceJob(id=4, name="scattered", submitted_s=50, gpus=2, work=Scattered(700)),
    ]
    params = {"introspect_s": 200, "trial_s": trial_s}
    moved = by_id(gandiva(jobs, "A100:2x2", params, grace_s=grace_s))[4]
    # From 100 on it lies on both nodes. At 300 it is moved, with 200 s done, and goes at half its speed from then on.
    # At 350, with 225 done, it goes back.
    assert moved.moves == moves
    assert moved.ended_s == pytest.approx(ended_s + moves * grace_s)


@pytest.mark.parametrize(("trial_s", "moves", "ended_s"), [(30, 2, 180 + 835), (None, 1, 150 + 2 * 850)])
def test_growth_that_was_predicted_to_be_a_gain_and_is_a_loss_is_taken_back(
    trial_s: float | None, moves: int, ended_s: float
) -> None:
    jobs = [TraceJob(id=1, name="grower", submitted_s=0, gpus=1, work=Wrong(1000, 2), max_gpus=2), job(2, runs=100)]
    grower = by_id(gandiva(jobs, "A100:1x2", {"grow_after_s": 50, "trial_s": trial_s}))[1]
    # At 100 the GPU beside it comes free. At 150 it grows, with 150 s done, and goes at half its speed from then on.
    # At 180, with 165 done, it shrinks, and grows no more.
    assert grower.moves == moves
    assert grower.ended_s == pytest.approx(ended_s)


@settings(max_examples=examples(40))
@given(
    gpus=st.integers(1, 4),
    jobs=st.integers(2, 9),
    turns=st.integers(1, 8),
    first=st.lists(st.integers(0, 25), min_size=9, max_size=9),
)
def test_equals_get_equal_time(gpus: int, jobs: int, turns: int, first: list[int]) -> None:
    # Equal jobs that come within half a turn: when the first is done, no job lacks more than two turns.
    traced = [job(number, at=first[number - 1], runs=50.0 * turns) for number in range(1, jobs + 1)]
    result = gandiva(traced, f"A100:1x{gpus}", {"slice_s": 50, "max_height": 9})
    ended = sorted(record.ended_s or math.inf for record in result.records)
    assert ended[-1] - ended[0] <= 50 * 2 * math.ceil(jobs / gpus) + 50


@settings(max_examples=examples(60))
@given(data=st.data(), grace_s=st.sampled_from([0, 7]), round_s=st.sampled_from([0, 30]))
def test_everything_ends_and_every_gpu_second_is_accounted_for(
    data: st.DataObject, grace_s: float, round_s: float
) -> None:
    jobs, quota = [], data.draw(st.sampled_from([4, 8]))
    for number in range(1, data.draw(st.integers(1, 12)) + 1):
        split, elastic = data.draw(st.booleans()), data.draw(st.booleans())
        gpus = data.draw(st.integers(1, quota if split else 4))
        one = job(
            number,
            at=data.draw(st.integers(0, 200)),
            gpus=gpus,
            runs=data.draw(st.integers(1, 150)),
            vc=data.draw(st.sampled_from("ab")),
            split=split,
            checkpoints=data.draw(st.integers(0, 3)) > 0,
            preemptible=data.draw(st.integers(0, 3)) > 0,
        )
        if split and elastic and gpus < 4:
            one = TraceJob(number, one.name, one.submitted_s, gpus, Linear(300, 4), max_gpus=4)
        jobs.append(one)
    params = {"slice_s": 20, "introspect_s": 30, "grow_after_s": 10, "restart_s": 3}
    quotas = {"a": {"A100": quota}, "b": {"A100": quota}}
    result = gandiva(jobs, "A100:2x4", params, grace_s=grace_s, round_s=round_s, restart_s=3, quotas=quotas)
    assert result.unfinished == 0
    for record in result.records:
        assert record.ended_s is not None
        waited = record.ended_s - record.submitted_s - record.run_s
        assert record.fair_share_delay_s + record.fragmentation_delay_s == pytest.approx(waited, abs=1e-6)
