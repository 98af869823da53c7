"""A policy's memory of its pool, and the timer by which it decides again without an event."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from muster.common.clock import database_now
from muster.dispatch import tasks
from muster.dispatch.config.settings import change_settings
from muster.dispatch.cycles import replay, run_cycle
from muster.dispatch.models import Cycle, PolicyState
from muster.fleet.models import Pool
from muster.jobs.models import Attempt
from scheduler.authoring import Config, CyclePolicy
from scheduler.authoring import Cycle as Decision
from scheduler.engine.policy import POLICIES
from tests.db.stories import World, cycle, let_pass, make_world, now_of, start, states, submit

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_committed", "sound")]

Act = Callable[[Decision], object]


class Scripted(CyclePolicy):
    """Does what the test says."""

    act: Act = staticmethod(lambda cycle: None)

    def decide(self, cycle: Decision) -> None:
        type(self).act(cycle)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    known: dict[str, Any] = dict(POLICIES._classes)
    monkeypatch.setitem(POLICIES.__dict__, "_classes", known | {"scripted": Scripted})
    yield make_world(gpus=2, policy="scripted")
    Scripted.act = staticmethod(lambda cycle: None)


def script(act: Act) -> None:
    Scripted.act = staticmethod(act)


def place_all(decision: Decision) -> None:
    for job in decision.waiting():
        decision.place(job)


def started(world: World, then: Act = place_all) -> Attempt:
    """A running job of a policy that places all jobs, and does this too in the cycle that starts it."""

    def both(decision: Decision) -> None:
        place_all(decision)
        then(decision)

    script(both)
    return start(world)


def due(world: World) -> None:
    """Let the timer of the pool be due."""
    row = PolicyState.objects.get(pool=world.pool)
    assert row.wake_at is not None
    let_pass((row.wake_at - database_now()).total_seconds(), row, "wake_at")


def test_what_a_policy_remembers_comes_back_in_the_next_cycle_and_in_its_replay(world: World) -> None:
    seen: list[Mapping[str, Any] | None] = []

    def count(decision: Decision) -> None:
        seen.append(decision.state)
        decision.remember({"cycles": (decision.state or {}).get("cycles", 0) + 1})

    script(count)
    submit(world)
    result = [cycle(world) for _ in range(2)][-1]
    assert seen == [None, {"cycles": 1}]
    row = PolicyState.objects.get(pool=world.pool)
    assert (row.policy, row.version, row.data) == ("scripted", 1, {"cycles": 2})
    then, now = replay(Cycle.objects.get(pk=result.cycle_id))
    assert then == now
    assert then.pool_state is not None


def test_another_policy_does_not_read_the_state(world: World) -> None:
    PolicyState.objects.create(pool=world.pool, policy="other", version=1, data={"theirs": 1})
    seen: list[Mapping[str, Any] | None] = []
    script(lambda decision: seen.append(decision.state))
    submit(world)
    cycle(world)
    assert seen == [None]
    assert PolicyState.objects.get(pool=world.pool).data == {"theirs": 1}


def test_a_lease_that_ends_stops_the_job_and_queues_it_again(world: World) -> None:
    attempt = started(world)
    script(lambda decision: decision.preempt(decision.running()[0], "its lease has ended"))
    submit(world)
    assert cycle(world).applied.preempted == [attempt.job_id]
    assert now_of(attempt).reason_detail == "its lease has ended"
    assert states(attempt.job)[1] == "stopping"


def test_an_assignment_starts_a_waiting_job(world: World) -> None:
    script(lambda decision: decision.assign({job.id: Config("A100", 2) for job in decision.waiting()}))
    job = submit(world, gpus=2)
    assert cycle(world).applied.started == [job.pk]


def test_a_timer_runs_the_cycle_of_a_pool_in_which_no_job_waits(world: World) -> None:
    started(world, lambda decision: decision.wake_at(decision.now + 60))
    assert run_cycle(world.pool.pk, trigger="sweep").cycle_id is None  # not due
    due(world)
    other = make_world(policy="fifo")
    ran: list[int] = []
    script(lambda decision: ran.append(1))
    tasks.run_due_timers()
    assert ran == [1]
    assert PolicyState.objects.get(pool=world.pool).wake_at is None  # this decision set none
    assert not Cycle.objects.filter(pool=other.pool, trigger="timer").exists()
    assert Cycle.objects.filter(pool=world.pool, trigger="timer").count() == 1


def test_a_lost_timer_is_found_by_the_sweep(world: World) -> None:
    started(world, lambda decision: decision.wake_at(decision.now + 60))
    row = PolicyState.objects.get(pool=world.pool)
    due(world)
    let_pass(10 * tasks.SWEEP_EVERY_S, row, "wake_at")
    tasks.run_due_timers()
    assert not Cycle.objects.filter(trigger="timer").exists()
    tasks.sweep()
    assert Cycle.objects.filter(trigger="sweep").count() == 1


def test_the_thread_sleeps_until_the_next_timer(world: World) -> None:
    started(world, lambda decision: decision.wake_at(decision.now + 1.0))
    timer, now = tasks.SweepTimer(), time.monotonic()
    assert 0.25 <= timer._pause_s(now) <= 1.0
    PolicyState.objects.update(wake_at=None)
    assert timer._pause_s(now) == pytest.approx(tasks.SWEEP_EVERY_S, abs=0.5)
    due_at = database_now()
    PolicyState.objects.update(wake_at=due_at)  # overdue: it does not run the thread hot
    assert timer._pause_s(now) == pytest.approx(tasks.SWEEP_EVERY_S, abs=0.5)


def test_new_settings_decide_about_running_jobs_at_once(world: World) -> None:
    Pool.objects.filter(pk=world.pool.pk).update(policy="fifo")
    start(world)
    ran: list[int] = []
    script(lambda decision: ran.append(1))
    change_settings(pool=world.pool, changes={"policy": "scripted"}, actor="ops")
    run_cycle(world.pool.pk, trigger="hint")
    assert ran == [1]


@pytest.mark.parametrize(
    ("act", "why"),
    [
        (lambda decision: decision.remember({"x": "y" * 10_000_000}), "PolicyError: the state of the pool has"),
        (lambda decision: decision.wake_at(decision.now - 1), "ValueError: wake_at: "),
        (lambda decision: decision.wake_at(decision.now + 1e12), "ValueError: wake_at: "),
        (lambda decision: decision.assign({987_654: Config("A100", 1)}), "PolicyError: there is no job 987654"),
    ],
)
def test_a_policy_that_asks_for_nonsense_is_named_and_changes_nothing(world: World, act: Act, why: str) -> None:
    job = submit(world)

    def first(decision: Decision) -> None:
        decision.place(decision.waiting()[0])
        decision.note(decision.waiting()[0] if decision.waiting() else job_of(decision), {"half": 1.0})
        act(decision)

    def job_of(decision: Decision) -> Any:
        return decision.context.view.waiting_by_id[job.pk]

    script(first)
    cycle(world)
    failed = Cycle.objects.exclude(error="").get()
    assert why in failed.error
    assert failed.config is not None
    assert failed.config["policy"] == "scripted"
    assert not PolicyState.objects.exclude(version=0).exists()
    job.refresh_from_db()
    assert not job.memo
    assert states(job)[0] == "active"  # the fallback placed it
