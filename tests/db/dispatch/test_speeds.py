"""Rates of jobs: stretches of time over which nothing changed, the breaks between them, and a policy's view."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from muster.common.clock import database_now
from muster.dispatch.cycles import run_cycle
from muster.dispatch.models import PolicyState
from muster.dispatch.snapshot.snapshot import pool_snapshot
from muster.events.models import Event
from muster.jobs.models import Attempt
from muster.jobs.services import requeue_job
from muster.samples.models import RankTenSeconds, Speed, SpeedAlone
from muster.samples.speeds import Stretch, keep_speeds, read_on
from nodeagent.protocol.messages import UsageSample
from scheduler import model
from scheduler.model.reasons import Reason
from tests.db.agent_calls import Agent
from tests.db.stories import (
    World,
    claim,
    cycle,
    end,
    let_pass,
    live_attempt,
    make_world,
    now_of,
    place,
    ranks,
    run,
    start,
    states,
)

BEGIN = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
PACKS: dict[str, Any] = {"share": "pack", "gpu_memory": "20GiB", "checkpoint": {}}


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


Reading = tuple[float, float, tuple[int, ...]]  # seconds, the number, and who is beside


def told(counts: list[float], *, every_s: float = 20.0, beside: tuple[int, ...] = ()) -> list[Reading]:
    return [(place * every_s, count, beside) for place, count in enumerate(counts)]


STRETCHES: dict[str, tuple[list[Reading], float | None]] = {
    "one reading is no speed": (told([5]), None),
    "a steady job": (told([0, 10, 20, 30, 40, 50]), 0.5),
    "what it did before the first growth was loading": (told([0, 0, 0, 0, 0, 40, 80, 120, 160]), 2.0),
    "a stretch that is too short": (told([0, 10, 20, 30]), None),
    "too few steps for a short stretch": (told([0, 1, 1, 1, 1, 2]), None),
    "few steps in a long one": (told([0, 1, 1, 1, 2], every_s=200), 1 / 600),
    "a number that never grows": (told([7] * 100), None),
    "one that grows no more gets slower": (told([0, 30, 60, 90, 120, 120, 120, 120]), 0.75),
    "a step back begins anew": (told([0, 10, 20, 30, 40, 5, 6, 7]), None),
    "a resume that loads first": (told([0, 10, 20, 30, 40, 5, 5, 5, 15, 25, 35, 45]), 0.5),
    "a number that was torn does not count": (told([1000, 1010, 1020, 1, 1040, 1050, 1060, 1070]), 0.5),
    "another job comes": (
        [*told([0, 10, 20, 30, 40]), (100, 45, (9,)), (120, 47, (9,)), (140, 49, (9,)), (160, 51, (9,))],
        0.1,
    ),
    "another job comes, and it makes no progress": (
        [*told([0, 10, 20]), *((60.0 + seconds, 30.0, (9,)) for seconds in range(0, 620, 20))],
        0.0,
    ),
    "another job has just come": ([*told([0, 10, 20, 30, 40]), (100, 50, (9,)), (120, 52, (9,))], None),
    "another one comes in the place of the first": (
        [*told([0, 10, 20, 30, 40], beside=(8,)), (100, 50, (9,)), (160, 52, (9,))],
        None,
    ),
    "a clock that goes back changes nothing": ([*told([0, 10, 20, 30, 40]), (60, 45, ())], 0.5),
    "as slow as an epoch in a day": (told([0, 1, 2, 3, 4], every_s=86_400), 1 / 86_400),
    "as large as a double tells apart": (told([0.0, 2.0**52, 2.0**52 + 60, 2.0**52 + 120, 2.0**52 + 180]), 3.0),
}


@pytest.mark.parametrize(("readings", "speed"), STRETCHES.values(), ids=list(STRETCHES))
def test_what_is_known_after_some_readings(readings: list[Reading], speed: float | None) -> None:
    stretch: Stretch | None = None
    for seconds, count, beside in readings:
        stretch = read_on(stretch, at=at(seconds), count=count, beside=beside)
    assert stretch is not None
    assert stretch.per_s == (None if speed is None else pytest.approx(speed))


DEVIATIONS: dict[str, tuple[list[float], float | None]] = {
    "a steady job": ([0.0, *(10.0 * n for n in range(1, 12))], 0.0),
    "a job that varies": ([0.0, *(10.0 * n + 4.0 * (n % 2) for n in range(1, 12))], 0.2 / 3),  # 0.3 and 0.7 in turn
    "too few readings": ([0.0, 10.0, 24.0, 30.0, 44.0, 50.0], None),
}


@pytest.mark.parametrize(("counts", "deviation"), DEVIATIONS.values(), ids=list(DEVIATIONS))
def test_the_deviation_is_how_the_speed_varied_between_readings(counts: list[float], deviation: float | None) -> None:
    stretch: Stretch | None = None
    for seconds, count, beside in told(counts):
        stretch = read_on(stretch, at=at(seconds), count=count, beside=beside)
    assert stretch is not None
    assert stretch.deviation == (None if deviation is None else pytest.approx(deviation, abs=0.01))


def later(seconds: float) -> None:
    """So much time goes by."""
    moved = timedelta(seconds=seconds)
    Speed.objects.update(at=F("at") - moved, since=F("since") - moved)


def tell(attempt: Attempt, count: float) -> None:
    """The agent of rank 0 tells a number."""
    keep_speeds({ranks(attempt)[0].pk: count})


def work(attempt: Attempt, per_s: float, *, beside: Attempt | None = None, beside_per_s: float = 0.0) -> None:
    """The attempt, and one beside it, go on for as long as it takes to know how fast they are."""
    both = [(attempt, per_s), *([] if beside is None else [(beside, beside_per_s)])]
    done = {one.pk: getattr(Speed.objects.filter(attempt=one).first(), "count", 0.0) for one, _ in both}
    for _ in range(7):
        for one, speed in both:
            tell(one, done[one.pk])
            done[one.pk] += speed * 20
        later(20)


def seen(world: World, attempt: Attempt) -> model.Running:
    (found,) = (run for run in pool_snapshot(world.pool, seed=0).running if run.attempt_id == attempt.pk)
    return found


def rates(world: World, *attempts: Attempt) -> list[float | None]:
    return [seen(world, attempt).rate for attempt in attempts]


@pytest.fixture
def world() -> World:
    """One node with one GPU, whose policy packs and takes no turns."""
    return make_world(gpus=1, policy="gandiva", policy_params={"slice_s": None})


@pytest.mark.usefixtures("as_committed", "sound")
class TestWhatIsKept:
    def test_a_job_alone_has_a_speed_and_no_rate(self, world: World) -> None:
        attempt = start(world, **PACKS)
        work(attempt, 2.0)
        run = seen(world, attempt)
        assert run.speed == pytest.approx(2.0, rel=0.05)
        assert run.rate is None
        alone = SpeedAlone.objects.get()
        assert (alone.job_id, alone.gpu_type, alone.gpus) == (attempt.job_id, "A100", 1)
        assert alone.per_s == pytest.approx(2.0, rel=0.05)
        assert alone.deviation == pytest.approx(0.0, abs=0.05)

    def test_the_speed_alone_outlives_the_attempt(self, world: World) -> None:
        attempt = start(world, **PACKS)
        work(attempt, 2.0)
        end(ranks(attempt)[0])
        assert SpeedAlone.objects.get().per_s == pytest.approx(2.0, rel=0.05)
        assert not pool_snapshot(world.pool, seed=0).running

    def test_rank_0_speaks_for_the_gang(self) -> None:
        world = make_world(nodes=2, gpus=1, policy="gandiva")
        attempt = start(world, nodes=2, **PACKS)
        first, second = ranks(attempt)
        keep_speeds({second.pk: 1e6})
        assert not Speed.objects.exists()
        keep_speeds({first.pk: 10.0, second.pk: 1e6})
        assert (Speed.objects.get().count, Speed.objects.get().gpus) == (10.0, 2)

    def test_who_does_not_run_has_none(self, world: World) -> None:
        attempt = place(world, **PACKS)
        tell(attempt, 1.0)
        assert not Speed.objects.exists()

    @pytest.mark.parametrize("count", [-1.0, float("nan"), float("inf"), -float("inf"), 1e300, 2.0**53 + 2])
    def test_what_no_job_can_have_done_is_no_reading(
        self, world: World, count: float, django_assert_num_queries: Any
    ) -> None:
        attempt = start(world)
        allocation_id = ranks(attempt)[0].pk
        with django_assert_num_queries(0):
            keep_speeds({allocation_id: count})

    def test_the_number_of_queries_does_not_grow(self, django_assert_num_queries: Any) -> None:
        world = make_world(gpus=4, policy="gandiva")
        attempts = [start(world, **PACKS) for _ in range(4)]
        one, *others = [ranks(attempt)[0].pk for attempt in attempts]
        with CaptureQueriesContext(connection) as first:
            keep_speeds({one: 5.0})
        with django_assert_num_queries(len(first)):
            keep_speeds(dict.fromkeys([one, *others], 6.0))
        assert Speed.objects.count() == len(attempts)


@pytest.mark.usefixtures("as_committed", "sound")
class TestAPair:
    @pytest.fixture
    def pair(self, world: World) -> tuple[Attempt, Attempt]:
        """The first has been alone for long enough to be known, and the second has just begun."""
        first = start(world, **PACKS)
        work(first, 2.0)
        second = start(world, **PACKS)
        return first, second

    def test_a_rate_is_known_once_it_was_measured_beside_the_other(
        self, world: World, pair: tuple[Attempt, Attempt]
    ) -> None:
        first, second = pair
        # What was measured alone says nothing of the pair.
        assert rates(world, first, second) == [None, None]
        assert seen(world, first).speed is None
        work(first, 0.8, beside=second, beside_per_s=3.0)
        assert rates(world, first, second) == [pytest.approx(0.4, abs=0.03), None]  # who was never alone is not known
        assert seen(world, second).speed == pytest.approx(3.0, rel=0.05)

    def test_both_are_known_where_both_have_been_alone(self, world: World, pair: tuple[Attempt, Attempt]) -> None:
        first, second = pair
        SpeedAlone.objects.create(job=second.job, gpu_type="A100", gpus=1, per_s=4.0, at=BEGIN)
        work(first, 1.4, beside=second, beside_per_s=9.0)
        assert rates(world, first, second) == [pytest.approx(0.7, abs=0.03), 1.0]

    def test_alone_on_other_gpus_is_another_speed(self, world: World, pair: tuple[Attempt, Attempt]) -> None:
        first, second = pair
        SpeedAlone.objects.update(gpu_type="V100")
        work(first, 1.4, beside=second, beside_per_s=1.0)
        assert rates(world, first) == [None]

    def test_while_one_of_them_starts_or_stops_nothing_is_known(self, world: World) -> None:
        first = start(world, **PACKS)
        work(first, 2.0)
        second = place(world, **PACKS)
        assert seen(world, first).speed is None
        work(first, 2.0)
        assert seen(world, first).speed is None
        for allocation in ranks(second):
            claim(allocation)
            run(allocation)
        work(first, 1.0, beside=second, beside_per_s=1.0)
        assert rates(world, first) == [pytest.approx(0.5, abs=0.03)]

    def test_who_is_alone_again_is_as_fast_as_before_and_has_no_rate(
        self, world: World, pair: tuple[Attempt, Attempt]
    ) -> None:
        first, second = pair
        work(first, 0.8, beside=second, beside_per_s=1.0)
        end(ranks(second)[0])
        assert (seen(world, first).rate, seen(world, first).speed) == (None, None)
        work(first, 2.0)
        assert seen(world, first).rate is None
        assert seen(world, first).speed == pytest.approx(2.0, rel=0.05)

    @pytest.mark.parametrize(("first_per_s", "undone"), [(0.9, True), (1.3, False)])
    def test_one_that_gets_less_than_its_turns_would_give_it_is_undone(
        self, world: World, pair: tuple[Attempt, Attempt], first_per_s: float, undone: bool
    ) -> None:
        first, second = pair
        for attempt in pair:
            let_pass(300, attempt, "placed_at")
        work(first, first_per_s, beside=second, beside_per_s=1.0)
        applied = cycle(world).applied
        assert applied.preempted == ([second.job_id] if undone else [])
        if not undone:
            return
        why = f"the two jobs on its GPUs are slower than with time slices: job {first.job_id}"
        assert now_of(second).reason_detail == why
        assert any(
            why in str(data) for data in Event.objects.filter(job_id=second.job_id).values_list("data", flat=True)
        )
        end(ranks(second)[0])
        assert states(second.job)[0] == "queued"
        # And they are never put together again.
        assert cycle(world).applied.started == []

    def test_a_decision_knows_the_rates_that_were_measured_alone_also_while_the_job_waits(self, world: World) -> None:
        attempt = start(world, **PACKS)
        work(attempt, 2.0)
        (known,) = seen(world, attempt).job.rates
        assert (known.gpu_type, known.gpus, known.rate.source) == ("A100", 1, "measured")
        assert known.rate.mean == pytest.approx(2.0, rel=0.05)
        requeue_job(user=world.user, job=attempt.job)
        end(ranks(attempt)[0], Reason.KILLED_BY_SIGNAL, exit_code=143)
        (waiting,) = pool_snapshot(world.pool, seed=0).waiting
        assert waiting.rates == (known,)

    def test_running_jobs_are_looked_at_when_the_timer_is_due_although_no_job_waits(
        self, world: World, pair: tuple[Attempt, Attempt]
    ) -> None:
        timer = PolicyState.objects.get(pool=world.pool)
        assert timer.wake_at is not None
        let_pass((timer.wake_at - database_now()).total_seconds(), timer, "wake_at")
        sweeps = [run_cycle(world.pool.pk, trigger="sweep").cycle_id for _ in range(2)]
        assert [cycle_id is None for cycle_id in sweeps] == [False, True]

    def test_a_pool_whose_policy_leaves_alone_what_runs_is_left_alone_itself(self) -> None:
        world = make_world(policy="fifo")
        start(world)
        assert cycle(world).cycle_id is None

    def test_a_job_that_goes_on_later_is_measured_by_what_it_was_alone_before(self, world: World) -> None:
        before = start(world, **PACKS)
        work(before, 2.0)
        requeue_job(user=world.user, job=before.job)
        end(ranks(before)[0], Reason.KILLED_BY_SIGNAL, exit_code=143)
        host = start(world, **PACKS)
        again = live_attempt(before.job)
        for allocation in ranks(again):
            claim(allocation)
            run(allocation)
        # It begins below what it had, for it goes on from its checkpoint.
        work(again, 1.0, beside=host, beside_per_s=1.0)
        assert again.pk != before.pk
        assert rates(world, again) == [pytest.approx(0.5, abs=0.03)]


@pytest.mark.usefixtures("sound")
class TestSync:
    def test_progress_is_kept_as_a_series_and_as_a_speed(self, agent: Agent, world: World) -> None:
        attempt = start(world)
        allocation = ranks(attempt)[0]
        usage = UsageSample(allocation.pk, attempt.pk, progress=1200.0, progress_s=0.0125)
        assert agent.sync(usage=(usage,)).status_code == 200
        assert RankTenSeconds.objects.get().progress_s == pytest.approx(0.0125)
        assert Speed.objects.get(attempt=attempt).count == 1200.0

    def test_under_another_fence_nothing_is_kept(self, agent: Agent, world: World) -> None:
        attempt = start(world)
        usage = UsageSample(ranks(attempt)[0].pk, attempt.pk + 1, progress=1200.0)
        assert agent.sync(usage=(usage,)).status_code == 200
        assert not Speed.objects.exists()

    def test_nonsense_is_left_out_and_the_rest_is_kept(self, agent: Agent, world: World) -> None:
        attempt = start(world)
        usage = UsageSample(ranks(attempt)[0].pk, attempt.pk, cpu_cores=1.0, progress=-5.0, progress_s=1e18)
        assert agent.sync(usage=(usage,)).status_code == 200
        row = RankTenSeconds.objects.get()
        assert (row.cpu_cores, row.progress_s) == (1.0, None)
        assert not Speed.objects.exists()
