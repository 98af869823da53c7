"""The waiting jobs that a process keeps between cycles are those that the database has."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.dispatch import kept, snapshot
from muster.dispatch.kept import WaitingRows
from muster.dispatch.snapshot import planner_snapshot
from muster.jobs.models import Job
from scheduler import model
from tests.db.stories import World, cycle, make_world, now_of, submit

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_committed", "sound")]

# Another value of each column that a waiting job is made from.
OTHER = {
    "tenant_id": None,
    "vc_id": None,
    "owner_id": None,
    "priority": "priority + 1",
    "klass": "'opportunistic'",
    "request": """jsonb_set(request, '{nodes}', '3')""",
    "submitted_at": "submitted_at - interval '1 s'",
    "eligible_at": "eligible_at + interval '1 s'",
    "time_limit_s": "4711",
    "deadline_at": "now() + interval '1 day'",
    "grace_s": "grace_s + 1",
    "attained_gpu_s": "attained_gpu_s + 1",
    "avoid_nodes": "'[7]'",
    "requeued_at": "now()",
    "ran_s": "ran_s + 1",
    "expected_s": "4711",
    "memo": """'{"level": 2}'""",
    "preemptible": "NOT preemptible, time_limit_s = 60",
    "checkpoints": "NOT checkpoints",
    "relax_after_s": "3600",
    "screening": None,
    "failed_resize": """'{"before": 1, "wanted": 2, "at": 0, "because": "", "until": 4e9, "count": 1}'""",
    "group_id": None,
    "bumped": "bumped + 1",
    "own_rank": "7",
}


@pytest.fixture(autouse=True)
def _nothing_is_kept() -> None:
    kept.forget()


@pytest.fixture
def world() -> World:
    return make_world()


def fresh(world: World) -> tuple[model.Job, ...]:
    return planner_snapshot(world.pool, None, seed=1).waiting


def as_kept(world: World) -> tuple[model.Job, ...]:
    return planner_snapshot(world.pool, None, seed=1, rows=WaitingRows(world.pool.pk)).waiting


def write(sql: str, *params: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)


def rows_read(world: World) -> list[int]:
    """The ids of the jobs whose rows a cycle reads."""
    with CaptureQueriesContext(connection) as queries:
        as_kept(world)
    read = [query["sql"] for query in queries if "job.hold::text" in query["sql"]]
    return [int(one) for sql in read for one in sql.rpartition("ARRAY[")[2].partition("]")[0].split(",")]


def test_every_column_is_tried() -> None:
    assert {"id", *OTHER} == set(snapshot._JOB_FIELDS)


def test_a_row_is_read_once(world: World) -> None:
    jobs = [submit(world, gpus=9) for _ in range(3)]
    assert rows_read(world) == [job.pk for job in jobs]
    assert rows_read(world) == []
    Job.objects.filter(pk=jobs[1].pk).update(priority=77)
    assert rows_read(world) == [jobs[1].pk]


@pytest.mark.parametrize("column", [name for name, value in OTHER.items() if value])
def test_a_change_of_any_column_by_any_means_is_seen(world: World, column: str) -> None:
    job = submit(world, gpus=9)
    before = as_kept(world)
    write(f"UPDATE jobs_job SET {column} = {OTHER[column]} WHERE id = %s", job.pk)
    assert as_kept(world) == fresh(world)
    assert as_kept(world) != before or column == "relax_after_s"  # which shows when its time has come


def test_jobs_that_come_go_and_belong_to_others_are_seen(world: World) -> None:
    job, other = submit(world, gpus=9), make_world()
    assert as_kept(world) == fresh(world)
    columns = {"vc_id": other.vc.pk, "tenant_id": other.tenant.pk, "owner_id": other.user.pk}
    for name, value in columns.items():
        write(f"UPDATE jobs_job SET {name} = %s WHERE id = %s", value, job.pk)
        assert getattr(as_kept(world)[0], name) == value
    Job.objects.filter(pk=job.pk).update(held=True)
    assert as_kept(world) == ()
    Job.objects.filter(pk=job.pk).update(held=False, pool=other.pool)
    assert (as_kept(world), len(as_kept(other))) == ((), 1)


def test_two_changes_in_one_transaction_are_both_seen(world: World) -> None:
    job = submit(world, gpus=9)
    for priority in (31, 32, 33):
        write("UPDATE jobs_job SET priority = %s WHERE id = %s", priority, job.pk)
        assert as_kept(world)[0].priority == priority


def test_a_change_that_is_rolled_back_is_not_seen(world: World) -> None:
    job = submit(world, gpus=9)
    before = as_kept(world)
    with transaction.atomic():
        write("UPDATE jobs_job SET priority = 99 WHERE id = %s", job.pk)
        assert as_kept(world)[0].priority == 99
        transaction.set_rollback(True)
    assert as_kept(world) == before == fresh(world)


def test_what_depends_on_the_time_is_made_anew(world: World) -> None:
    submit(world, gpus=9, locality={"within": "rack", "relax_after": "1h"})
    assert as_kept(world)[0].request.locality is model.Locality.RACK
    early = "- interval '59 min 59.8 s'"
    write(f"UPDATE jobs_job SET submitted_at = submitted_at {early}, eligible_at = eligible_at {early}")
    as_kept(world)
    time.sleep(0.3)
    assert rows_read(world) == []
    assert as_kept(world)[0].request.locality is model.Locality.ANY


def test_all_is_read_anew_from_another_server_by_another_connection_and_after_an_hour(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submit(world, gpus=9)
    assert (rows_read(world), rows_read(world)) == ([job.pk], [])
    kept.connection_created.send(type(connection), connection=connection)
    assert (rows_read(world), rows_read(world)) == ([job.pk], [])
    (made, started_at), rows = kept._of_pool[world.pool.pk].source, kept._of_pool[world.pool.pk]
    kept._of_pool[world.pool.pk] = kept.replace(rows, source=(made, started_at - timedelta(seconds=1)))
    assert (rows_read(world), rows_read(world)) == ([job.pk], [])
    monkeypatch.setattr(kept, "KEPT_FOR_S", -1.0)
    assert (rows_read(world), rows_read(world)) == ([job.pk], [job.pk])


def test_a_pending_reason_is_written_and_told_where_another_one_is_stored(world: World) -> None:
    job = submit(world, gpus=9)
    cycle(world)
    told = now_of(job).hold
    assert told["reason"] == "infeasible"
    assert cycle(world).plan.holds
    write("UPDATE jobs_job SET hold = NULL, hold_reason = '' WHERE id = %s", job.pk)
    cycle(world)
    assert now_of(job).hold == told


WRITES = st.lists(
    st.tuples(
        st.sampled_from(["priority", "memo", "bumped", "held", "submit", "cancel", "rollback", "hold"]),
        st.integers(0, 5),
    ),
    max_size=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(writes=WRITES)
def test_after_any_writes_the_kept_jobs_are_those_of_a_fresh_snapshot(
    world: World, writes: list[tuple[str, int]]
) -> None:
    ids = list(Job.objects.filter(pool=world.pool).order_by("-pk").values_list("pk", flat=True)[:3])
    ids += [submit(world, gpus=9).pk for _ in range(3 - len(ids))]
    as_kept(world)
    for what, number in writes:
        pk = ids[number % len(ids)]
        if what == "submit":
            ids.append(submit(world, gpus=9).pk)
        elif what == "cancel":
            write("UPDATE jobs_job SET desired = 'stop' WHERE id = %s", pk)
        elif what == "rollback":
            with transaction.atomic():
                write("UPDATE jobs_job SET priority = priority + 1 WHERE id = %s", pk)
                as_kept(world)
                transaction.set_rollback(True)
        elif what == "held":
            write("UPDATE jobs_job SET held = NOT held WHERE id = %s", pk)
        elif what == "memo":
            write("UPDATE jobs_job SET memo = %s::jsonb WHERE id = %s", f'{{"n": {number}}}', pk)
        elif what == "hold":
            write("UPDATE jobs_job SET hold_reason = 'x' WHERE id = %s", pk)
        else:
            write(f"UPDATE jobs_job SET {what} = {number} WHERE id = %s", pk)
        assert as_kept(world) == fresh(world)
