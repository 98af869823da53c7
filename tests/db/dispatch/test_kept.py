"""The waiting jobs and nodes that a process keeps between cycles are those that the database has."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.common.clock import database_now
from muster.common.statements import statement_of
from muster.dispatch.snapshot import kept, snapshot
from muster.dispatch.snapshot.kept import WaitingRows
from muster.dispatch.snapshot.snapshot import planner_snapshot
from muster.fleet.maintenance import call_off, plan_maintenance
from muster.fleet.models import Gpu, Node, Strike
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
    "expected_p10_s": "12",
    "expected_p90_s": "9999",
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
    name = statement_of(kept._ROWS.format(columns=", ".join(f"job.{name}" for name in snapshot._JOB_FIELDS))).name
    read = [query["sql"] for query in queries if name in query["sql"]]
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
    rows = kept._waiting._of_pool[world.pool.pk]
    made, started_at = rows.source
    kept._waiting._of_pool[world.pool.pk] = kept.replace(rows, source=(made, started_at - timedelta(seconds=1)))
    assert (rows_read(world), rows_read(world)) == ([job.pk], [])
    monkeypatch.setattr(kept, "KEPT_FOR_S", -1.0)
    assert (rows_read(world), rows_read(world)) == ([job.pk], [job.pk])


def nodes_of(world: World, *, as_kept: bool) -> tuple[model.Node, ...]:
    rows = WaitingRows(world.pool.pk) if as_kept else None
    return planner_snapshot(world.pool, None, seed=1, rows=rows).nodes


def nodes_read(world: World) -> int:
    """The number of rows of nodes that a cycle reads."""
    with CaptureQueriesContext(connection) as queries:
        nodes_of(world, as_kept=True)
    read = [query["sql"] for query in queries if 'FROM "fleet_node"' in query["sql"]]
    return sum(len(sql.rpartition(" IN (")[2].split(",")) for sql in read)


# Another value of each column that the node of a snapshot is made from, and of its GPUs.
OTHER_OF_NODE = {
    "fleet_node": {
        "name": "'another'",
        "rack": "'r9'",
        "cpus": "7",
        "memory_mib": "4711",
        "version": "version + 1",
        "admin": "'cordoned'",
        "reason": "'why', admin = 'draining'",
        "health": "'down'",
        "barred": "'its disk is full'",
        "must_report": "true",
        "links": "'[[0, 4], [4, 0]]'",
        "labels": """'{"default-image": "debian"}', inventory = '{"runtimes": ["docker"]}'""",
        "inventory": """'{"runtimes": ["process"]}'""",
        "single_user": "true",
        "single_user_tenant_id": "(SELECT min(id) FROM tenants_tenant), single_user = true",
        "single_user_shared": "true, single_user = true",
        "pool_id": None,
    },
    "fleet_gpu": {
        "index": "9",
        "uuid": "'GPU-other'",
        "type": "'H100'",
        "memory_mib": "4711",
        "health": "'failure'",
        "present": "false",
        "node_id": None,
    },
}


@pytest.mark.parametrize(
    ("table", "column"),
    [(table, name) for table, columns in OTHER_OF_NODE.items() for name, value in columns.items() if value],
)
def test_a_change_of_a_node_or_gpu_by_any_means_is_seen(world: World, table: str, column: str) -> None:
    before = nodes_of(world, as_kept=True)
    row = world.nodes[0].pk if table == "fleet_node" else min(gpu.id for node in before for gpu in node.gpus)
    write(f'UPDATE {table} SET "{column}" = {OTHER_OF_NODE[table][column]} WHERE id = %s', row)
    after = nodes_of(world, as_kept=True)
    assert after == nodes_of(world, as_kept=False)
    assert after != before or column == "single_user_shared"  # which is as if it were no single-user node


def test_a_node_is_read_once() -> None:
    world = make_world(nodes=3)
    assert (nodes_read(world), nodes_read(world)) == (3, 0)
    Gpu.objects.filter(node=world.nodes[1]).update(health="warning")
    assert (nodes_read(world), nodes_read(world)) == (1, 0)


def test_nodes_that_join_and_leave_and_gpus_that_move_are_seen() -> None:
    world, other = make_world(nodes=2), make_world()
    nodes_of(world, as_kept=True)
    nodes_of(other, as_kept=True)
    Node.objects.filter(pk=world.nodes[0].pk).update(pool=other.pool)
    assert [len(nodes_of(one, as_kept=True)) for one in (world, other)] == [1, 2]
    Gpu.objects.filter(node=other.nodes[0]).delete()
    Gpu.objects.filter(node=world.nodes[0]).update(node=other.nodes[0])
    assert nodes_of(other, as_kept=True) == nodes_of(other, as_kept=False)
    Node.objects.filter(pk=world.nodes[1].pk).update(admin="retired")
    assert nodes_of(world, as_kept=True) == ()


def test_what_concerns_a_node_at_the_moment_is_no_part_of_what_is_kept() -> None:
    world = make_world(nodes=2)
    at_first, soon = nodes_of(world, as_kept=True), database_now() + timedelta(hours=1)
    window = plan_maintenance(
        node=world.nodes[0].name, begins_at=soon, ends_at=soon + timedelta(hours=1), reason="fans", actor="op"
    )
    Strike.objects.create(node=world.nodes[1], job_id=1, attempt_id=1, reason="node_lost", incident="x")
    Node.objects.filter(pk=world.nodes[0].pk).update(single_user=True)
    assert nodes_read(world) == 1
    concerned = nodes_of(world, as_kept=True)
    assert [node.maintenance_reason for node in concerned] == ["fans", ""]
    assert (concerned[0].tenant_id, concerned[1].strikes > 0.9) == (world.tenant.pk, True)
    call_off(maintenance=window, actor="op")
    Strike.objects.update(forgiven_at=database_now())
    Node.objects.filter(pk=world.nodes[0].pk).update(single_user=False)
    assert nodes_of(world, as_kept=True) == at_first


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
