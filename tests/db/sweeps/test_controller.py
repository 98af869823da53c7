"""Effects of members' reports on a sweep: stops, pauses, and its end."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
from celery import Celery
from django.utils import timezone

from muster.events.models import Event
from muster.jobs.models import Attempt, JobGroup
from muster.jobs.services import cancel_job
from muster.monitoring.store import keep_points
from muster.sweeps import controller, ends
from muster.sweeps.models import Progress, Trial
from muster.sweeps.selectors import members_of, standings
from scheduler.model.lifecycle import AttemptState, Desired, GroupState, HoldReason, JobState
from scheduler.model.reasons import Reason
from scheduler.predict.runtimes.quantiles import Source
from tests.db.stories import World, claim, cycle, end, live_attempt, make_world, ranks, run
from tests.db.sweeps.test_budget import job, sweep

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_committed", "sound")]

RUNGS = {"first": 1, "last": 9, "keep": 3}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(ends, "SETTLED_AFTER", timedelta(0))
    return make_world(gpus=16, black_hole_jobs=0)


def running(world: World, method: str = "asha", *, members: int = 9, **asked: Any) -> JobGroup:
    """A sweep whose members all run."""
    rungs = {"rungs": RUNGS} if method in {"asha", "halving"} else {}
    group = sweep(world, members=members, parallel=16, sweep={"method": method, **rungs, **asked}, checkpoint={})
    start_members(world)
    return group


def start_members(world: World) -> None:
    """All members that may start do."""
    cycle(world)
    for attempt in Attempt.objects.filter(state=AttemptState.PLACED).order_by("pk"):
        for rank in ranks(attempt):
            run(claim(rank))


def report(group: JobGroup, member: int, *points: tuple[float, float], name: str = "loss") -> None:
    """The member reports values at steps."""
    keep_points({live_attempt(job(group, member)).pk: [(name, step, value) for step, value in points]})


def finish(group: JobGroup, member: int, reason: Reason = Reason.COMPLETED) -> None:
    (rank,) = ranks(live_attempt(job(group, member)))
    end(rank, reason)


def look(group: JobGroup) -> JobGroup:
    controller.look_at_sweep(group.pk)
    return JobGroup.objects.get(pk=group.pk)


def states(group: JobGroup) -> list[str]:
    return [one["state"] for one in members_of(group)]


def test_the_end_of_a_member_asks_for_a_look(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    group = running(world, "random", members=2)
    sent: list[tuple[str, list[int]]] = []
    monkeypatch.setattr(Celery, "send_task", lambda self, name, args, **_: sent.append((name, args)))
    finish(group, 1)
    assert ("sweeps.look_at", [group.pk]) in sent


class TestAsha:
    def test_a_member_that_is_not_among_the_best_is_stopped_and_tells_what_that_saved(self, world: World) -> None:
        group = running(world)
        Attempt.objects.update(placed_at=timezone.now() - timedelta(seconds=100))
        report(group, 1, (1, 0.5))
        look(group)
        report(group, 2, (1, 0.9))
        look(group)
        stopped = job(group, 2)
        assert (stopped.state, stopped.desired) == (JobState.ACTIVE, Desired.STOP)
        attempt = live_attempt(stopped)
        assert (attempt.state, attempt.reason) == (AttemptState.STOPPING, Reason.STOPPED_EARLY)
        assert attempt.reason_detail == "loss 0.9 at step 1 is number 2 of 2: only the best goes on"
        finish(group, 2, Reason.KILLED_BY_SIGNAL)
        stopped.refresh_from_db()
        assert (stopped.state, stopped.reason) == (JobState.CANCELLED, Reason.STOPPED_EARLY)
        found = members_of(group)
        assert [one["state"] for one in found[:3]] == ["running", "stopped", "running"]
        assert found[1]["saved_gpu_hours"] == pytest.approx(800 / 3600, rel=0.05)
        assert found[1]["why"] == attempt.reason_detail

    def test_a_rung_is_reached_once(self, world: World) -> None:
        group = running(world)
        report(group, 1, (1, 0.5), (2, 0.4), (3, 0.3))
        look(group)
        report(group, 1, (1, 9.0), (2, 9.0), (2, 0.1))
        look(group)
        trial = Trial.objects.get(job=job(group, 1))
        assert [value for _, value in trial.readings] == [0.5, 0.3]
        assert (trial.value, trial.value_step, trial.step) == (0.1, 2, 3)
        assert [value for _, value in Progress.objects.get(group=group).best_so_far] == [0.3, 0.1]
        assert states(group) == ["running"] * 9

    def test_no_number_is_the_worst_value(self, world: World) -> None:
        group = running(world)
        report(group, 1, (1, math.nan))
        report(group, 2, (1, math.inf))
        look(group)
        assert [one["why"] for one in members_of(group)[:2]] == ["loss at step 1 is not a finite number"] * 2
        assert standings([group])[group.pk].best is None

    def test_more_is_better_where_the_goal_says_so(self, world: World) -> None:
        group = running(world, goal="max")
        report(group, 1, (1, 0.5))
        look(group)
        report(group, 2, (1, 0.4))
        report(group, 3, (1, 0.6))
        look(group)
        assert [live_attempt(job(group, member)).reason for member in (1, 2, 3)] == ["", Reason.STOPPED_EARLY, ""]
        best = standings([group])[group.pk].best
        assert best is not None
        assert best.job_id == job(group, 3).pk

    def test_looking_again_changes_nothing(self, world: World) -> None:
        group = running(world)
        report(group, 1, (1, 0.5))
        report(group, 2, (1, 0.9))
        look(group)
        before = [list(model.objects.order_by("pk").values()) for model in (Attempt, Trial)]
        events = Event.objects.count()
        look(group)
        assert [list(model.objects.order_by("pk").values()) for model in (Attempt, Trial)] == before
        assert Event.objects.count() == events

    def test_the_expected_run_time_is_that_of_the_steps_to_come(self, world: World) -> None:
        group = running(world)
        Attempt.objects.update(placed_at=timezone.now() - timedelta(seconds=100))
        report(group, 1, (1, 0.5))
        look(group)
        one, another = job(group, 1), job(group, 9)
        assert one.expected_source == another.expected_source == Source.SWEEP
        # A step takes 100 s. Two more members go on to step 3, and one of three to step 9.
        assert (one.expected_s, another.expected_s) == (pytest.approx(500, rel=0.1), pytest.approx(200, rel=0.1))

    def test_before_the_first_report_a_member_is_expected_to_take_its_part_of_a_whole_run(self, world: World) -> None:
        asked = {"method": "asha", "rungs": RUNGS}
        group = sweep(world, members=9, sweep=asked, expected="900s")
        # Of nine members all take one step, three two more, and one six more.
        assert job(group, 9).expected_s == pytest.approx(900 * (9 * 1 + 3 * 2 + 1 * 6) / (9 * 9))
        assert job(group, 9).expected_source == Source.SWEEP


class TestHalving:
    def test_members_pause_until_all_are_there_and_the_best_go_on(self, world: World) -> None:
        group = running(world, "halving", members=3)
        report(group, 1, (1, 0.9))
        report(group, 2, (1, 0.5))
        look(group)
        assert [live_attempt(job(group, member)).reason for member in (1, 2, 3)] == [Reason.PAUSED, Reason.PAUSED, ""]
        finish(group, 1)
        (rank,) = ranks(live_attempt(job(group, 2)))
        end(rank, Reason.KILLED_BY_SIGNAL)
        look(group)
        paused = job(group, 2)
        assert (paused.state, paused.hold_reason) == (JobState.QUEUED, HoldReason.GROUP)
        assert "paused at a rung" in paused.hold["detail"]
        cycle(world)
        assert states(group)[1:] == ["paused", "running"]
        report(group, 3, (1, 0.7))
        look(group)
        assert [one["state"] for one in members_of(group)][1] == "waiting"
        assert live_attempt(job(group, 3)).reason == Reason.STOPPED_EARLY
        cycle(world)
        assert job(group, 2).state == JobState.ACTIVE

    def test_a_member_that_failed_keeps_no_other_waiting(self, world: World) -> None:
        group = running(world, "halving", members=2)
        report(group, 1, (1, 0.9))
        look(group)
        finish(group, 2, Reason.EXIT_NONZERO)
        look(group)
        assert not job(group, 1).paused


class TestTheEnd:
    def test_a_sweep_succeeds_when_its_members_have_ended_and_one_has_a_value(self, world: World) -> None:
        group = running(world, "random", members=2)
        report(group, 1, (1, 0.5))
        finish(group, 1)
        assert look(group).state == GroupState.ACTIVE
        finish(group, 2, Reason.EXIT_NONZERO)
        ended = look(group)
        assert (ended.state, ended.reason) == (GroupState.SUCCEEDED, "")
        assert ended.ended_at is not None
        assert Event.objects.filter(kind="sweep.succeeded", data__sweep=group.pk).count() == 1
        assert look(group).ended_at == ended.ended_at

    def test_members_that_all_fail_stop_the_sweep_after_a_few(self, world: World) -> None:
        group = running(world, "random", members=9)
        for member in (1, 2, 3):
            finish(group, member, Reason.EXIT_NONZERO)
        look(group)
        assert [job(group, member).desired for member in range(4, 10)] == [Desired.STOP] * 6
        for member in range(4, 10):
            finish(group, member, Reason.KILLED_BY_SIGNAL)
        ended = look(group)
        assert ended.state == GroupState.FAILED
        assert ended.reason.startswith("its first 3 members to end failed, and none succeeded; member 3:")
        assert states(group) == ["failed"] * 3 + ["stopped"] * 6

    def test_one_success_among_the_first_lets_the_sweep_go_on(self, world: World) -> None:
        group = running(world, "random", members=9)
        finish(group, 1)
        for member in (2, 3, 4):
            finish(group, member, Reason.EXIT_NONZERO)
        report(group, 5, (1, 0.5))
        assert look(group).desired == Desired.RUN

    def test_a_metric_that_never_comes_stops_the_sweep_and_names_what_came(self, world: World) -> None:
        group = running(world, "random", members=5)
        for member in (1, 2, 3):
            report(group, member, (1, 0.5), name="acc")
            report(group, member, (1, 0.5), name="val_loss")
            finish(group, member)
        ended = look(group)
        assert ended.reason == "its first 3 members to end did not report loss: they reported acc, val_loss"
        assert ended.desired == Desired.STOP

    def test_a_sweep_whose_members_were_cancelled_one_by_one_is_cancelled(self, world: World) -> None:
        group = sweep(world, members=2)
        for member in (1, 2):
            cancel_job(user=world.user, job=job(group, member))
        assert look(group).state == GroupState.CANCELLED

    def test_a_sweep_that_fails_in_the_controller_holds_up_no_other(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first, second = running(world, members=2), running(world, members=2)
        report(second, 1, (1, 0.5))
        JobGroup.objects.filter(pk=first.pk).update(spec={})
        assert controller.look_at_sweeps(until=math.inf) == 2
        assert Trial.objects.filter(job__group=second).count() == 1
