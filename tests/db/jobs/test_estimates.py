"""Expected run times in Postgres: where they come from, when they change, and what policies see of them."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from muster.common.errors import Invalid
from muster.dispatch.explain.selectors import why
from muster.dispatch.snapshot.snapshot import pool_snapshot
from muster.jobs.attempt.estimates import current_estimate, estimate_jobs
from muster.jobs.attempt.history import _HISTORY
from muster.jobs.models import Job
from muster.jobs.services import draft_job, edit_job, submit_batch
from scheduler.model.lifecycle import JobState
from scheduler.model.reasons import Reason
from tests.db.stories import World, claim, cycle, end, let_pass, live_attempt, make_world, now_of, ranks, start, submit
from tests.factories import job_fields, make_user

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sound")]


@pytest.fixture
def world() -> World:
    """One node with one GPU, whose policy lets the shortest job go first."""
    return make_world(gpus=1, policy="sjf")


def run_for(world: World, seconds: float, *, reason: Reason = Reason.COMPLETED, **spec: Any) -> Job:
    """A job that had its GPUs for so long and has ended."""
    attempt = start(world, **spec)
    let_pass(seconds, attempt, "placed_at")
    end(ranks(attempt)[0], reason)
    return now_of(attempt.job)


def told(job: Job) -> tuple[float | None, str]:
    """The job's expected run time as it is stored, in whole tens of seconds, and its source."""
    job = now_of(job)
    # A story takes a second or two beside the time that it lets pass.
    return (None if job.expected_s is None else job.expected_s // 10 * 10, job.expected_source)


def test_an_estimate_comes_from_jobs_alike_then_from_the_limit_then_from_the_user(world: World) -> None:
    run_for(world, 9000, name="train-1")
    run_for(world, 100, name="train-2")
    run_for(world, 300, name="train-3", reason=Reason.EXIT_NONZERO)
    assert told(submit(world, name="train-4", time="1h", gpus="A100:1")) == (300, "history")
    assert told(submit(world, name="train-5", time="2m")) == (120, "history")
    assert told(submit(world, name="other")) == (200, "history")  # the mean of the owner's last two
    new = make_user(tenant=world.tenant)
    for spec, expected in (({"expected": "150s"}, (150, "user")), ({"time": "1h"}, (3600, "limit")), ({}, (None, ""))):
        draft = draft_job(user=new, data={"command": "true", "gpus": 1, "name": "train"} | spec)
        estimate_jobs([draft])
        assert (draft.expected_s, draft.expected_source) == expected


def test_a_users_estimate_counts_by_the_users_record(world: World) -> None:
    for number in range(3):
        run_for(world, 100, name=f"a{'bcd'[number]}", expected="50s")
    known = submit(world, name="unlike", expected="100s")
    assert told(known) == (200, "user")  # their jobs took twice as long as they said
    factors = [told(submit(world, name="ab", expected=text))[0] or 0 for text in ("20s", "200s")]
    assert factors[0] < 100 < factors[1]


def test_the_interval_is_stored_and_told_with_the_estimate(world: World) -> None:
    for seconds in (100, 200, 400):
        run_for(world, seconds, name="train")
    job = now_of(submit(world, name="train"))
    shown = current_estimate(job)
    assert shown is not None
    assert shown["source"] == "history"
    assert shown["expected_s"] == pytest.approx(200, abs=5)
    assert shown["p10_s"] == pytest.approx(200 / 2.06, rel=0.1)
    assert shown["p90_s"] == pytest.approx(200 * 2.06, rel=0.1)
    (seen,) = (one for one in pool_snapshot(world.pool, seed=1).waiting if one.id == job.pk)
    assert (seen.expected_p10_s, seen.expected_s, seen.expected_p90_s) == (
        job.expected_p10_s,
        job.expected_s,
        job.expected_p90_s,
    )


def test_another_users_jobs_are_no_history(world: World) -> None:
    run_for(world, 100, name="train")
    draft = draft_job(user=make_user(tenant=world.tenant), data={"command": "true", "gpus": 1, "name": "train"})
    estimate_jobs([draft])
    assert draft.expected_s is None


def test_a_job_of_a_minute_goes_before_one_of_ten_hours(world: World) -> None:
    run_for(world, 36_000, name="long")
    run_for(world, 60, name="short")
    first = start(world)
    long, short = submit(world, name="long"), submit(world, name="short")
    end(ranks(first)[0])
    cycle(world)
    assert [now_of(job).state for job in (long, short)] == ["queued", "active"]


def test_waiting_jobs_learn_from_the_first_jobs_alike_that_end(world: World) -> None:
    attempt = start(world, name="sweep-1")
    waiting = [submit(world, name="sweep-2", time=limit) for limit in ("1h", "2m")]
    let_pass(300, attempt, "placed_at")
    end(ranks(attempt)[0])
    assert [told(job) for job in waiting] == [(300, "history"), (120, "history")]
    cycle(world)
    second = live_attempt(waiting[1])
    for rank in ranks(second):
        claim(rank)
    let_pass(100, second, "placed_at")
    end(ranks(second)[0])
    assert told(waiting[0]) == (200, "history")


def test_times_without_sense_neither_count_nor_refuse_a_job(world: World) -> None:
    for seconds, name in ((0.0, "none"), (50 * 365 * 86_400, "years"), (60, "back")):
        job = run_for(world, 60, name=name)
        Job.objects.filter(pk=job.pk).update(ran_s=seconds)
    Job.objects.filter(name="back").update(submitted_at=now_of(job).ended_at + timedelta(days=3), checkpoints=True)
    for name in ("none", "years", "back"):
        assert 0 < (now_of(submit(world, name=name, time="1d")).expected_s or 0) <= 86_400
    assert all(0 < (job.expected_s or 0) < 11 * 366 * 86_400 for job in Job.objects.exclude(expected_s=None))


def test_only_the_last_attempt_of_a_job_without_checkpoints_counts(world: World) -> None:
    for spec in ({"name": "plain"}, {"name": "saves", "checkpoint": {}}):
        job = run_for(world, 50, **spec)
        Job.objects.filter(pk=job.pk).update(ran_s=950, attempt_count=2)
    assert told(submit(world, name="plain")) == (50, "history")
    assert told(submit(world, name="saves", checkpoint={})) == (950, "history")


def test_a_running_job_that_outlives_its_estimate_is_expected_to_go_on(world: World) -> None:
    attempt = start(world, expected="100s")
    Job.objects.update(expected_p10_s=50.0, expected_p90_s=200.0)
    before = current_estimate(now_of(attempt.job))
    let_pass(250, attempt, "placed_at")
    (run,) = pool_snapshot(world.pool, seed=1).running
    assert run.job.expected_s is not None
    assert 250 < run.job.expected_s < (run.job.expected_p90_s or 0)
    assert run.remaining_s(run.placed_at + 250) == pytest.approx(run.job.expected_s - 250)
    shown = current_estimate(attempt.job)
    assert shown == why(attempt.job)["estimate"]
    assert before is not None
    assert shown is not None
    assert (before["source"], shown["source"]) == ("user", "outlived")
    assert shown["expected_s"] == pytest.approx(run.job.expected_s, rel=0.1)
    assert told(attempt.job) == (100, "user")


def test_an_edit_estimates_anew(world: World) -> None:
    start(world)
    job = submit(world, name="train", expected="10m", time="1h")
    assert told(job) == (600, "user")
    edit_job(user=world.user, job=job, changes={"expected": "20m", "time": None})
    assert told(job) == (1200, "user")
    edit_job(user=world.user, job=now_of(job), changes={"expected": None, "time": "2h"})
    assert told(job) == (7200, "limit")


def test_an_estimate_above_the_limit_is_refused(world: World) -> None:
    with pytest.raises(Invalid) as refused:
        submit(world, expected="2h", time="1h")
    assert refused.value.errors[0].field == "expected"


def test_a_batch_asks_for_its_history_once(world: World) -> None:
    items: list[object] = [
        {"command": "true", "gpus": 1, "vc": world.vc.name, "name": f"job-{number}"} for number in range(5)
    ]
    with CaptureQueriesContext(connection) as queries:
        submit_batch(user=world.user, items=items)
    assert sum(_HISTORY.name in query["sql"] for query in queries) == 1


def test_the_history_is_read_from_its_index(world: World) -> None:
    draft = draft_job(user=world.user, data={"command": "true", "gpus": 1, "name": "train"})
    with CaptureQueriesContext(connection) as queries:
        estimate_jobs([draft])
    (history,) = (query["sql"] for query in queries if _HISTORY.name in query["sql"])
    # In a small table every plan costs as little. Of these jobs one in ten has the stem of the draft.
    fields = job_fields(draft.vc, draft.owner, state=JobState.SUCCEEDED, ran_s=60.0)
    ends = [fields["ended_at"] - timedelta(minutes=minute) for minute in range(2000)]
    names = itertools.cycle(["train", *(f"other-{letter}" for letter in "abcdefghi")])
    with transaction.atomic(), connection.cursor() as cursor:
        Job.objects.bulk_create([Job(**fields | {"name": next(names), "ended_at": at}) for at in ends])
        cursor.execute("ANALYZE jobs_job")
        cursor.execute(f"EXPLAIN {history}")
        plan = "\n".join(row[0] for row in cursor.fetchall())
        transaction.set_rollback(True)  # the statistics, too
    assert "using job_of_stem" in plan
    assert "using job_of_owner_ended" in plan
