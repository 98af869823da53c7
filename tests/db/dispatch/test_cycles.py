"""Scheduling cycles: what they write, what they keep, who asks for them, and what they survive."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from django.core.management import CommandError, call_command
from django.db import Error, InternalError, connection, transaction
from django.test.utils import CaptureQueriesContext
from kombu.exceptions import OperationalError as BrokerError

from muster.dispatch import cycles, tasks
from muster.dispatch.apply import pending
from muster.dispatch.config import settings as pool_settings
from muster.dispatch.models import Cycle
from muster.dispatch.snapshot.snapshot import one_moment, pool_snapshot
from muster.events import redis as events_redis
from muster.events.services import forget_hint, wake_pool
from muster.fleet.models import Pool
from muster.jobs.models import IdempotencyKey, Job
from muster.jobs.services import cancel_job, submit_job
from scheduler.model.lifecycle import HoldReason
from scheduler.sim.engine import simulate
from scheduler.sim.options import Options
from scheduler.sim.start import read_start
from tests.db.stories import (
    WAIT_S,
    Other,
    World,
    cycle,
    end,
    kinds,
    let_pass,
    make_world,
    now_of,
    ranks,
    silent,
    start,
    states,
    submit,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_committed", "sound")]

DAY_S = 86_400


@pytest.fixture
def world() -> World:
    return make_world()


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[Any]]]:
    """The messages that would go to Celery's workers."""
    sent: list[tuple[str, list[Any]]] = []
    monkeypatch.setattr(Celery, "send_task", lambda self, name, args, **_: sent.append((name, args)))
    return sent


def writes(queries: CaptureQueriesContext, table: str) -> list[str]:
    found = (query["sql"] for query in queries)
    return [sql for sql in found if sql.replace('"', "").startswith(f"UPDATE {table} ")]


class TestTheCollector:
    def test_it_rests_during_a_cycle_and_no_longer(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        at_work: list[bool] = []
        decide = cycles.decide
        monkeypatch.setattr(cycles, "decide", lambda *args: (at_work.append(gc.isenabled()), decide(*args))[1])
        submit(world)
        cycle(world)
        assert at_work == [False]
        assert gc.isenabled()

    def test_it_is_at_work_again_after_a_cycle_that_failed(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: object) -> None:
            raise RuntimeError

        monkeypatch.setattr(cycles, "apply_plan", fail)
        submit(world)
        with pytest.raises(RuntimeError):
            cycle(world)
        assert gc.isenabled()

    def test_where_it_rested_already_it_goes_on_resting(self, world: World) -> None:
        gc.disable()
        try:
            submit(world)
            cycle(world)
            assert not gc.isenabled()
        finally:
            gc.enable()


class TestWhatACycleWrites:
    def test_it_places_what_fits_and_says_why_the_rest_waits(self, world: World) -> None:
        placed, waits, never = submit(world, gpus=3), submit(world, gpus=2), submit(world, gpus=9)
        result = cycle(world)
        assert [one.job_id for one in result.plan.places] == [placed.pk]
        assert states(placed)[:2] == ("active", "placed")
        assert (now_of(waits).hold_reason, now_of(never).hold_reason) == ("no_free_gpus", "infeasible")
        assert now_of(waits).hold["helps"]
        record = Cycle.objects.get(pk=result.cycle_id)
        assert (record.trigger, record.waiting, record.placed, record.held, record.refused) == ("command", 3, 1, 2, 0)

    def test_a_cycle_with_nothing_to_do_leaves_no_trace(self, world: World) -> None:
        assert cycle(world).cycle_id is None
        assert not Cycle.objects.exists()

    def test_a_pool_without_work_is_asked_once(self, world: World) -> None:
        with CaptureQueriesContext(connection) as queries:
            cycle(world)
        first, work, last = (query["sql"] for query in queries)
        assert first.startswith("SELECT pg_try_advisory_lock(")
        assert work.startswith("EXECUTE ")
        assert last.startswith("SELECT pg_advisory_unlock(")

    def test_what_no_part_of_a_pool_has_is_not_read(self, world: World) -> None:
        submit(world)
        with CaptureQueriesContext(connection) as queries:
            cycle(world)
        read = " ".join(query["sql"] for query in queries if "EXISTS (SELECT FROM" not in query["sql"])
        empty = ("fleet_maintenance", "fleet_strike", "jobs_reservation", "offers_offer", "tenants_commonquota")
        assert [
            table for table in (*empty, "cells_cellshare", "events_restore", "dispatch_lane") if table in read
        ] == []

    def test_holds_are_written_only_where_they_changed(self, world: World) -> None:
        for _ in range(20):
            submit(world, gpus=9)
        cycle(world)
        newest = submit(world, gpus=9)
        with CaptureQueriesContext(connection) as queries:
            cycle(world)
        (update,) = writes(queries, "jobs_job")
        assert f"unnest(ARRAY[{newest.pk}]" in update.replace("'{", "ARRAY[").replace("}'", "]")
        with CaptureQueriesContext(connection) as queries:
            cycle(world)
        assert writes(queries, "jobs_job") == []

    def test_a_cycle_that_changed_nothing_counts_on_one_row(self, world: World) -> None:
        submit(world, gpus=9)
        for _ in range(4):
            cycle(world)
        first, quiet = Cycle.objects.order_by("pk")
        assert (first.snapshot is None, quiet.snapshot is None) == (False, True)
        assert (first.repeats, quiet.repeats) == (0, 2)

    def test_a_cycle_whose_snapshot_was_forgotten_is_not_counted_on(self, world: World) -> None:
        submit(world, gpus=9)
        cycle(world)
        let_pass(2 * DAY_S, Cycle.objects.get(), "started_at")
        tasks.forget_old_cycles()
        cycle(world)
        assert list(Cycle.objects.order_by("pk").values_list("repeats", flat=True)) == [0, 0]

    def test_a_job_that_begins_to_wait_for_a_reason_has_an_event_of_it_once(self, world: World) -> None:
        too_many = submit(world, gpus=5)
        cycle(world)
        assert kinds(too_many) == ["job.submitted", "job.held"]
        submit(world)
        cycle(world)
        assert kinds(too_many) == ["job.submitted", "job.held"]

    def test_more_reasons_than_one_statement_takes_are_all_written_and_told(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(pending, "MAX_JOBS_PER_BATCH", 2)
        jobs = [submit(world, gpus=9) for _ in range(5)]
        with CaptureQueriesContext(connection) as queries:
            cycle(world)
        assert len(writes(queries, "jobs_job")) == 3
        for job in jobs:
            assert now_of(job).hold_reason == now_of(job).hold["reason"] == "infeasible"
            assert kinds(job) == ["job.submitted", "job.held"]

    def test_a_hold_is_gone_once_the_job_has_its_gpus(self, world: World) -> None:
        running = start(world, gpus=4)
        job = submit(world)
        cycle(world)
        assert now_of(job).hold_reason == HoldReason.NO_FREE_GPUS
        end(ranks(running)[0])
        cycle(world)
        assert (now_of(job).state, now_of(job).hold_reason, now_of(job).hold) == ("active", "", None)

    def test_a_cycle_has_a_limit_and_asks_for_another_one(
        self, world: World, messages: list[Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(pool_settings, "MAX_PLACES", 2)
        jobs = [submit(world) for _ in range(3)]
        messages.clear()
        assert len(cycle(world).plan.places) == 2
        assert now_of(jobs[2]).hold_reason == "cycle_limit"
        assert messages == [("dispatch.run_cycle", [world.pool.pk])]
        cycle(world)
        assert now_of(jobs[2]).state == "active"

    def test_each_pool_has_its_own_cycles(self, world: World) -> None:
        other = make_world()
        job = submit(other)
        cycle(world)
        assert now_of(job).state == "queued"


class TestReplay:
    def test_a_stored_cycle_decides_the_same_again(self, world: World) -> None:
        for gpus in (3, 2, 1, 9):
            submit(world, gpus=gpus)
        result = cycle(world)
        stored, again = cycles.replay(Cycle.objects.get(pk=result.cycle_id))
        assert stored == again == result.plan
        out = StringIO()
        call_command("replay", str(result.cycle_id), stdout=out)
        assert "the same plan" in out.getvalue()

    def test_the_simulator_goes_on_from_a_stored_cycle_with_the_decision_that_was_taken(
        self, world: World, tmp_path: Path
    ) -> None:
        start(world, gpus=1)
        for gpus in (2, 3, 1):
            submit(world, gpus=gpus)
        result, file = cycle(world), tmp_path / "pool.json"
        call_command("replay", str(result.cycle_id), str(file), stdout=StringIO())
        begun = read_start(file)
        told = simulate(begun.trace, begun.cluster, Options.of(begun.config, begun.config.policy), start=begun)
        at_once = {one.id for one in told.records if one.started_s == 0.0}
        assert at_once == {place.job_id for place in result.plan.places}
        assert (len(at_once), len(told.records)) == (2, 4)
        with pytest.raises(CommandError, match="cannot be written: File exists"):
            call_command("replay", str(result.cycle_id), str(file))

    def test_what_is_stored_is_the_pool_as_it_was(self, world: World) -> None:
        start(world, gpus=2)
        submit(world, gpus=9)
        before = pool_snapshot(world.pool, seed=0)
        stored = cycles.stored_snapshot(Cycle.objects.get(pk=cycle(world).cycle_id))
        assert replace(stored, now=before.now, seed=0) == before

    def test_another_plan_is_noticed(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        submit(world)
        number = cycle(world).cycle_id
        monkeypatch.setattr(cycles, "decide", lambda *_: cycles.Plan(places=(), holds=()))
        out = StringIO()
        with pytest.raises(CommandError, match="differ") as refusal:
            call_command("replay", str(number), stdout=out)
        assert refusal.value.returncode == 1
        assert "differs: Place(" in out.getvalue()

    def test_a_cycle_that_is_not_there_or_kept_nothing_is_an_error(self, world: World) -> None:
        with pytest.raises(CommandError, match="no cycle 12345"):
            call_command("replay", "12345")
        submit(world, gpus=9)
        cycle(world)
        with pytest.raises(CommandError, match="changed nothing"):
            call_command("replay", str(cycle(world).cycle_id))


class TestOneMoment:
    @pytest.mark.django_db(transaction=True)
    def test_a_snapshot_shows_one_moment_though_others_go_on_writing(self, world: World) -> None:
        submit(world)
        with one_moment():
            before = Job.objects.count()
            Other(lambda: submit(world)).result()
            assert Job.objects.count() == before
        assert Job.objects.count() == before + 1

    @pytest.mark.django_db(transaction=True)
    def test_nothing_can_be_written_while_a_snapshot_is_taken(self, world: World) -> None:
        with pytest.raises(InternalError, match="read-only"), one_moment():
            submit(world)

    def test_a_snapshot_takes_as_many_queries_for_many_jobs_as_for_few(self, world: World) -> None:
        counts = []
        for _ in range(2):
            for _ in range(3):
                submit(world)
            cycle(world)
            with CaptureQueriesContext(connection) as queries:
                pool_snapshot(world.pool, seed=1)
            counts.append(len(queries))
        assert counts[0] == counts[1]


class TestTheLock:
    @staticmethod
    def _hold(world: World, until: threading.Event, held: threading.Event) -> str:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s, %s)", [cycles._POOL_SPACE, world.pool.pk])
            held.set()
            assert until.wait(WAIT_S)
            try:
                cursor.execute("SELECT pg_advisory_unlock(%s, %s)", [cycles._POOL_SPACE, world.pool.pk])
            except Error:
                return "its backend was ended"
        return "it let go"

    @pytest.mark.django_db(transaction=True)
    def test_whoever_holds_the_lock_too_long_is_ended_and_the_cycle_goes_on(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(cycles, "CYCLE_TIMEOUT_S", 0.1)
        job, until, held = submit(world), threading.Event(), threading.Event()
        hanging = Other(lambda: self._hold(world, until, held))
        assert held.wait(WAIT_S)
        cycle(world)
        assert now_of(job).state == "active"
        until.set()
        assert hanging.result() == "its backend was ended"

    @pytest.mark.django_db(transaction=True)
    def test_whoever_lets_go_in_time_is_left_alone(self, world: World) -> None:
        job, until, held = submit(world), threading.Event(), threading.Event()
        holding = Other(lambda: self._hold(world, until, held))
        assert held.wait(WAIT_S)
        waiting = Other(lambda: cycle(world)).until_it_waits()
        until.set()
        waiting.result()
        assert holding.result() == "it let go"
        assert now_of(job).state == "active"

    @pytest.mark.django_db(transaction=True)
    def test_the_lock_is_let_go_when_a_cycle_fails(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        job = submit(world)

        def fail(*_: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(cycles, "decide", fail)
        with pytest.raises(ZeroDivisionError):
            cycle(world)
        monkeypatch.undo()
        Other(lambda: cycle(world)).result()
        assert now_of(job).state == "active"

    @pytest.mark.django_db(transaction=True)
    def test_the_holder_of_another_pools_lock_is_nobodys_concern(self, world: World) -> None:
        until, held = threading.Event(), threading.Event()
        holding = Other(lambda: self._hold(make_world(), until, held))
        assert held.wait(WAIT_S)
        submit(world)
        assert len(cycle(world).plan.places) == 1
        until.set()
        assert holding.result() == "it let go"


class TestHints:
    def test_a_burst_asks_for_one_cycle(self, world: World, messages: list[Any]) -> None:
        for _ in range(5):
            submit(world)
        assert messages == [("dispatch.run_cycle", [world.pool.pk])]

    def test_what_changes_after_a_cycle_began_asks_for_another_one(self, world: World, messages: list[Any]) -> None:
        submit(world)
        forget_hint(world.pool.pk)
        submit(world)
        assert len(messages) == 2

    def test_a_cycle_forgets_the_hint_before_its_snapshot(
        self, world: World, messages: list[Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = submit(world)
        snapshot = cycles.planner_snapshot

        def submit_and_take_it(*args: Any, **kwargs: Any) -> Any:
            taken = snapshot(*args, **kwargs)
            # Too late for this snapshot: it must be heard of by a message.
            submit(world)
            return taken

        monkeypatch.setattr(cycles, "planner_snapshot", submit_and_take_it)
        messages.clear()
        result = cycle(world)
        assert [one.job_id for one in result.plan.places] == [first.pk]
        assert messages == [("dispatch.run_cycle", [world.pool.pk])]

    def test_each_pool_is_asked_for_by_itself(self, world: World, messages: list[Any]) -> None:
        other = make_world()
        submit(world)
        submit(other)
        assert messages == [("dispatch.run_cycle", [world.pool.pk]), ("dispatch.run_cycle", [other.pool.pk])]

    def test_what_is_rolled_back_asks_for_nothing(self, world: World, messages: list[Any]) -> None:
        with transaction.atomic():
            wake_pool(world.pool.pk)
            transaction.set_rollback(True)
        assert messages == []

    def test_the_task_runs_a_cycle(self, world: World) -> None:
        job = submit(world)
        tasks.run_cycle(world.pool.pk)
        assert now_of(job).state == "active"
        assert Cycle.objects.get().trigger == "hint"


class TestRedisIsDown:
    @pytest.fixture(autouse=True)
    def _nobody_answers(self, settings: Any, tmp_path: Any) -> Iterator[None]:
        settings.REDIS_URL = f"unix://{tmp_path}/no.sock"
        events_redis.client.cache_clear()
        yield
        events_redis.client.cache_clear()

    def test_a_job_is_submitted_placed_run_and_cancelled_without_redis(self, world: World) -> None:
        attempt = start(world)
        cancel_job(user=world.user, job=attempt.job)
        end(ranks(attempt)[0])
        assert states(attempt.job)[:2] == ("cancelled", "cancelled")

    def test_the_sweep_finds_what_no_message_told(self, world: World) -> None:
        job = submit(world)
        tasks.sweep()
        assert now_of(job).state == "active"


def test_a_broker_that_takes_no_messages_does_not_disturb_a_submission(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BrokerError("down")

    monkeypatch.setattr(Celery, "send_task", refuse)
    assert now_of(submit(world)).state == "queued"


class TestBursts:
    @pytest.fixture
    def slept_s(self, monkeypatch: pytest.MonkeyPatch) -> list[float]:
        slept: list[float] = []
        monkeypatch.setattr(tasks.time, "sleep", slept.append)
        monkeypatch.setattr(tasks, "_decided_at", {})
        return slept

    def test_a_lone_job_is_placed_at_once(self, world: World, slept_s: list[float]) -> None:
        tasks.run_cycle(world.pool.pk)  # nothing to decide on, so the next one does not wait for it
        job = submit(world)
        tasks.run_cycle(world.pool.pk)
        assert (now_of(job).state, slept_s) == ("active", [0.0, 0.0])

    def test_what_comes_right_after_a_decision_is_gathered(self, world: World, slept_s: list[float]) -> None:
        other = make_world()
        for one in (world, other, world):
            submit(one)
            tasks.run_cycle(one.pool.pk)
        *at_once, late_s = slept_s
        assert (at_once, 0.0 <= late_s <= tasks.GATHER_S) == ([0.0, 0.0], True)
        tasks._decided_at[world.pool.pk, None] += 60.0
        tasks.run_cycle(world.pool.pk)
        assert slept_s[-1] > 50.0


class TestSweep:
    def test_a_pool_that_cannot_be_scheduled_does_not_stop_the_others(self, world: World) -> None:
        broken, job = world.pool, submit(other := make_world())
        submit(world)
        Pool.objects.filter(pk=broken.pk).update(policy="no such policy")
        assert broken.pk < other.pool.pk
        tasks.sweep()
        assert now_of(job).state == "active"

    def test_the_reaper_looks_at_every_pool(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        other, seen = make_world(), []

        def look(pool: Pool) -> None:
            seen.append(pool.pk)
            if pool.pk == world.pool.pk:
                raise ZeroDivisionError

        monkeypatch.setattr(tasks, "reap_pool", look)
        tasks.reap()
        assert seen == []
        for node in (*world.nodes, *other.nodes):
            silent(node, 3600)
        tasks.reap()
        assert seen == [world.pool.pk, other.pool.pk]

    def test_a_platform_at_rest_asks_only_whether_there_is_anything_to_do(self, world: World) -> None:
        make_world(admission="tree")
        tasks.reap()
        with CaptureQueriesContext(connection) as queries:
            tasks.reap()
            tasks.sweep()
        assert len(queries) == 3


class TestForgetting:
    def test_snapshots_older_than_a_day_are_dropped_and_their_counters_kept(self, world: World) -> None:
        old, young = (self._cycle(world) for _ in range(2))
        let_pass(DAY_S + 60, old, "started_at")
        tasks.forget_old_cycles()
        assert (now_of(old).snapshot, now_of(old).plan, now_of(old).held) == (None, None, 1)
        assert now_of(young).snapshot is not None

    def test_the_oldest_snapshots_are_dropped_when_all_are_too_large(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        records = [self._cycle(world) for _ in range(3)]
        monkeypatch.setattr(tasks, "SNAPSHOTS_KEPT_BYTES", len(bytes(records[2].snapshot)) + 10)
        tasks.forget_old_cycles()
        kept = Cycle.objects.filter(snapshot__isnull=False)
        assert sum(len(bytes(one.snapshot)) for one in kept) <= tasks.SNAPSHOTS_KEPT_BYTES
        assert now_of(records[0]).snapshot is None

    def test_cycles_older_than_a_month_are_gone(self, world: World) -> None:
        old, young = (self._cycle(world) for _ in range(2))
        let_pass(31 * DAY_S, old, "started_at")
        tasks.forget_old_cycles()
        assert list(Cycle.objects.all()) == [young]

    def test_a_key_is_kept_for_a_week(self, world: World) -> None:
        body = {"command": "true", "vc": world.vc.name}
        for key in ("old", "young"):
            submit_job(user=world.user, data=body, idempotency_key=key)
        let_pass(7 * DAY_S + 60, IdempotencyKey.objects.get(key="old"), "created_at")
        let_pass(6 * DAY_S, IdempotencyKey.objects.get(key="young"), "created_at")
        tasks.forget_old_cycles()
        assert [key.key for key in IdempotencyKey.objects.all()] == ["young"]
        assert submit_job(user=world.user, data=body, idempotency_key="young")[1] is False

    @staticmethod
    def _cycle(world: World) -> Cycle:
        for job in Job.objects.filter(state="queued"):
            cancel_job(user=world.user, job=job)
        submit(world, gpus=9)
        return Cycle.objects.get(pk=cycle(world).cycle_id)
