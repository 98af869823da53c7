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
from muster.jobs.attempt.estimates import _HISTORY, current_estimate, estimate_jobs
from muster.jobs.models import Job
from muster.jobs.services import draft_job, edit_job, submit_batch
from scheduler.model.lifecycle import JobState
from scheduler.model.reasons import Reason
from tests.db.stories import World, cycle, end, let_pass, make_world, now_of, ranks, start, submit
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


def test_an_estimate_comes_from_the_user_then_from_history_then_from_the_limit(world: World) -> None:
    run_for(world, 9000, name="train")
    run_for(world, 100, name="train")
    run_for(world, 300, name="train", reason=Reason.EXIT_NONZERO)
    assert told(submit(world, name="train", expected="150s", time="1h")) == (150, "user")
    assert told(submit(world, name="train", expected="90s", time="1h")) == (200, "history")
    assert told(submit(world, name="train", time="1h")) == (200, "history")
    assert told(submit(world, name="train", gpus="A100:1", time="1h")) == (3600, "limit")
    assert told(submit(world, name="other", time="1h")) == (3600, "limit")
    assert told(submit(world, name="other")) == (None, "")


def test_another_users_jobs_are_no_history(world: World) -> None:
    run_for(world, 100, name="train")
    draft = draft_job(user=make_user(tenant=world.tenant), data={"command": "true", "gpus": 1, "name": "train"})
    estimate_jobs([draft])
    assert draft.expected_s is None


def test_a_job_of_a_minute_goes_before_one_of_ten_hours(world: World) -> None:
    first = start(world)
    long, short = submit(world, expected="10h"), submit(world, expected="1m")
    end(ranks(first)[0])
    cycle(world)
    assert [now_of(job).state for job in (long, short)] == ["queued", "active"]


def test_waiting_jobs_learn_from_the_first_job_alike_that_ends(world: World) -> None:
    attempt = start(world, name="sweep")
    waiting = [submit(world, name="sweep", time=limit) for limit in ("1h", "2m")]
    believed, wrong = submit(world, name="sweep", expected="200s"), submit(world, name="sweep", expected="20s")
    let_pass(300, attempt, "placed_at")
    end(ranks(attempt)[0])
    assert [told(job) for job in waiting] == [(300, "history"), (120, "history")]
    assert [told(job) for job in (believed, wrong)] == [(200, "user"), (300, "history")]


def test_only_the_last_attempt_of_a_job_without_checkpoints_counts(world: World) -> None:
    for spec in ({"name": "plain"}, {"name": "saves", "checkpoint": {}}):
        job = run_for(world, 50, **spec)
        Job.objects.filter(pk=job.pk).update(ran_s=950)
    assert told(submit(world, name="plain")) == (50, "history")
    assert told(submit(world, name="saves", checkpoint={})) == (950, "history")


def test_an_estimate_that_the_running_job_outlives_is_doubled(world: World) -> None:
    attempt = start(world, expected="100s", time="1h")
    let_pass(250, attempt, "placed_at")
    (run,) = pool_snapshot(world.pool, seed=1).running
    assert run.job.expected_s == 400
    assert run.remaining_s(run.placed_at + 250) == 150
    assert current_estimate(attempt.job) == {"expected_s": 400, "p10_s": None, "p90_s": None, "source": "doubled"}
    assert why(attempt.job)["estimate"] == current_estimate(attempt.job)
    assert told(attempt.job) == (100, "user")


def test_an_edit_estimates_anew(world: World) -> None:
    start(world)
    job = submit(world, name="train", expected="10m", time="1h")
    edit_job(user=world.user, job=job, changes={"expected": "20m"})
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
    # In a small table every plan costs as little. Of these jobs one in ten has the name of the draft.
    fields = job_fields(draft.vc, draft.owner, state=JobState.SUCCEEDED, ran_s=60.0)
    ends = [fields["ended_at"] - timedelta(minutes=minute) for minute in range(2000)]
    names = itertools.cycle(["train", *(f"other-{number}" for number in range(9))])
    with transaction.atomic(), connection.cursor() as cursor:
        Job.objects.bulk_create([Job(**fields | {"name": next(names), "ended_at": at}) for at in ends])
        cursor.execute("ANALYZE jobs_job")
        cursor.execute(f"EXPLAIN {history}")
        plan = "\n".join(row[0] for row in cursor.fetchall())
        transaction.set_rollback(True)  # the statistics, too
    assert "Backward using job_alike" in plan
