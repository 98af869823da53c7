"""Reports of usage over a year of jobs, from their claims alone and from the sums by days."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial

from django.db import connection, models, transaction
from django.db.models import Max
from django.utils import timezone

from bench.figures import Series
from bench.live.stack import ACTOR, StackError
from muster.accounts.models import User
from muster.fleet.models import Gpu, Node
from muster.fleet.services import create_pool
from muster.jobs.models import Allocation, Attempt, GpuClaim, Job
from muster.tenants.models import Membership, VirtualCluster
from muster.tenants.roles import Role
from muster.tenants.services import create_tenant, create_virtual_cluster
from muster.usage.dimensions import By
from muster.usage.fairness import fairness_by
from muster.usage.finish_times import fairness_of
from muster.usage.periods import Period
from muster.usage.scope import Asked, Scope, scope_of
from muster.usage.selectors import usage
from muster.usage.totals import BATCH, count_ended
from muster.usage.waste import waste
from scheduler.model import SLOTS
from scheduler.model.lifecycle import AllocationState, AttemptState, JobState
from scheduler.model.request import Choice, Request

_DAYS, _NODES, _GPUS_PER_NODE = 365, 320, 8
_TENANTS, _USERS_PER_TENANT = 20, 20
_UIDS = 1_000_000  # beyond those that the platform gives
_RUNNING, _QUEUED = 2_000, 10_000
_PERIODS = {"week": 7, "month": 30, "quarter": 90, "year": 365}


def measure(*, attempts: int, samples: int) -> Series:
    """Milliseconds of each report without and with sums, attempts that are counted in a second, and MiB of the sums."""
    member = fill(attempts)
    series = {f"usage_claims_{name}_ms": taken for name, taken in _reports(member, samples=1).items()}
    start, done = time.perf_counter(), 0
    while found := count_ended(most=BATCH):
        done += found
    counted_s = time.perf_counter() - start
    with connection.cursor() as cursor:  # what autovacuum does within a minute
        cursor.execute("VACUUM ANALYZE")
        cursor.execute("SELECT pg_total_relation_size('usage_heldday') + pg_total_relation_size('usage_daytotal')")
        (size,) = cursor.fetchone()
    series |= {f"usage_{name}_ms": taken for name, taken in _reports(member, samples=samples).items()}
    series |= {f"usage_rho_{name}_ms": taken for name, taken in _fairness(samples).items()}
    return series | {"usage_counted": [attempts / counted_s], "usage_sums_mib": [size / 2**20]}


def _reports(member: User, *, samples: int) -> Series:
    """Of the time up to now, so that its first and its last day are parts of days."""
    found: Series = {}
    everyone, mine = Scope(), scope_of(member, Asked())
    for name, days in _PERIODS.items():
        period = Period(timezone.now() - timedelta(days=days), timezone.now())
        reports: dict[str, Callable[[], object]] = {
            "vc": partial(usage, period, everyone, [By.VC]),
            "days": partial(usage, period, everyone, [By.DAY, By.OUTCOME]),
            "waste": partial(waste, period, everyone),
            "own": partial(usage, period, mine, [By.DAY, By.OUTCOME]),
        }
        for report, ask in reports.items():
            found[f"{report}_{name}"] = _taken_ms(ask, samples)
    return found


def _fairness(samples: int) -> Series:
    """The cost of sharing: the weeks of a year by tenant, and a waiting job that has waited for an hour or a month."""
    now = timezone.now()
    asked: dict[str, Callable[[], object]] = {
        "year": partial(fairness_by, Period(now - timedelta(days=_DAYS), now), Scope(), [By.WEEK, By.TENANT])
    }
    for name, waits in (("hour", timedelta(hours=1)), ("month", timedelta(days=30))):
        job = Job.objects.filter(state=JobState.QUEUED)[len(asked)]
        job.expected_s, job.submitted_at = 3600.0, now - waits
        asked[name] = partial(fairness_of, job)
    return {name: _taken_ms(ask, samples) for name, ask in asked.items()}


def _taken_ms(ask: Callable[[], object], samples: int) -> list[float]:
    taken = []
    for _ in range(samples):
        start = time.perf_counter()
        ask()
        taken.append((time.perf_counter() - start) * 1000)
    return taken


def fill(attempts: int, *, name: str = "year", running: int = _RUNNING, queued: int = _QUEUED) -> User:
    """Stores a year of jobs, some that run and some that wait, and returns a member of one of the tenants.

    Six of seven jobs have one attempt, and the others two to four. Triggers are off meanwhile: they look at each row.
    """
    pool = create_pool(name=name, actor=ACTOR)
    nodes = Node.objects.bulk_create(
        Node(pool=pool, name=f"{name}{number:03}", cpus=128, memory_mib=1 << 20) for number in range(_NODES)
    )
    gpus = Gpu.objects.bulk_create(
        Gpu(node=node, index=index, uuid=f"GPU-y{node.pk}-{index}", type=("A100", "H100")[place % 2], memory_mib=81_920)
        for place, node in enumerate(nodes)
        for index in range(_GPUS_PER_NODE)
    )
    owners: list[tuple[VirtualCluster, User]] = []
    for number in range(_TENANTS):
        tenant = create_tenant(name=f"{name}{number}", actor=ACTOR)
        vc = create_virtual_cluster(tenant=tenant, pool=pool, name=f"{name}{number}", actor=ACTOR)
        # Without passwords, each of which takes a tenth of a second by design.
        first = 1 + max(_UIDS, User.objects.aggregate(last=Max("uid"))["last"] or 0)
        uids = range(first, first + _USERS_PER_TENANT)
        users = User.objects.bulk_create(User(username=f"{name}{uid}", uid=uid) for uid in uids)
        Membership.objects.bulk_create(Membership(tenant=tenant, user=user, role=Role.MEMBER) for user in users)
        owners += [(vc, user) for user in users]
    with transaction.atomic(), connection.cursor() as cursor:
        for model, _, _ in _ROWS:
            cursor.execute(f"ALTER TABLE {model._meta.db_table} DISABLE TRIGGER USER")
        cursor.execute("SELECT setseed(0.5)")
        cursor.execute("CREATE TEMPORARY TABLE bench_owner (place int PRIMARY KEY, tenant_id int, vc_id int, id int)")
        cursor.executemany(
            "INSERT INTO bench_owner VALUES (%s, %s, %s, %s)",
            [(place, vc.tenant_id, vc.pk, user.pk) for place, (vc, user) in enumerate(owners)],
        )
        base = _template(owners[0], nodes[0], gpus[0])
        cursor.execute(_DRAWN, {"attempts": attempts, "base": base, "running": running, "queued": queued})
        numbers = {"nodes": _NODES, "node": nodes[0].pk, "gpu": gpus[0].pk, "running": running, "base": base}
        for model, source, values in _ROWS:
            cursor.execute(_copied(model, source, values), numbers)
        cursor.execute("DELETE FROM jobs_gpuclaim WHERE allocation_id = %(base)s", numbers)
        for table in ("jobs_allocation", "jobs_attempt", "jobs_job"):
            cursor.execute(f"DELETE FROM {table} WHERE id = %(base)s", numbers)
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for model, _, _ in _ROWS:
            table = model._meta.db_table
            cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
            cursor.execute(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), max(id)) FROM {table}")
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    if Attempt.objects.count() < attempts:
        raise StackError("the year has fewer attempts than it should have")
    return owners[0][1]


def _template(owner: tuple[VirtualCluster, User], node: Node, gpu: Gpu) -> int:
    """A job, an attempt, an allocation and a claim, which all have the same id; all others are copies of them."""
    newest = GpuClaim.objects.aggregate(newest=Max("pk"))["newest"] or 0
    base, now = 10_000_000 + 2 * newest, timezone.now()
    vc, user = owner
    spec = {
        "command": "python train.py --config configs/base.yaml --epochs 90 --seed 1",
        "gpus": "1",
        "env": {"OMP_NUM_THREADS": "8", "WANDB_MODE": "offline"},
    }
    Job.objects.create(
        id=base, tenant_id=vc.tenant_id, vc=vc, pool_id=vc.pool_id, owner=user, name="train", spec=spec,
        request=Request((Choice(None, 1, 8, 65_536),)), attempt_count=1,
    )  # fmt: skip
    Attempt.objects.create(
        id=base,
        job_id=base,
        request=Request((Choice(None, 1, 8, 65_536),)),
        number=1,
        state=AttemptState.SUCCEEDED,
        ended_at=now,
        master_addr="a",
        master_port=1,
    )
    Allocation.objects.create(
        id=base, attempt_id=base, node=node, rank=0, state=AllocationState.RELEASED, released_at=now, cpus=8,
        memory_mib=65_536,
    )  # fmt: skip
    span = (gpu.pk * SLOTS, (gpu.pk + 1) * SLOTS)
    GpuClaim.objects.create(id=base, allocation_id=base, gpu=gpu, span=span, released_at=now)
    return base


# A row for each attempt: `n` is its id, and `job` that of its job. Run times are lognormal, as those of traces are.
_DRAWN = f"""
CREATE TEMPORARY TABLE bench_drawn AS
WITH jobs AS MATERIALIZED (
    SELECT %(base)s + one AS job, random() AS tries, random() AS state, random() AS size,
        floor(random() * {_TENANTS * _USERS_PER_TENANT}) AS owner,
        clock_timestamp() - (1 - one / (%(attempts)s / 1.28 + 1000)) * interval '{_DAYS} days' AS began
    FROM generate_series(1, (%(attempts)s / 1.28)::int + 1000) one
),
attempts AS MATERIALIZED (
    SELECT jobs.*, number, CASE WHEN tries < 0.86 THEN 1 ELSE 2 + floor((tries - 0.86) * 21) END AS last,
        least(exp(8.5 + 1.6 * sqrt(-2 * ln(1 - random())) * cos(2 * pi() * random())), 600000) AS took_s
    FROM jobs, generate_series(1, 4) number
)
SELECT %(base)s + row_number() OVER () AS n, job, number, number = last AS is_last, owner,
    began + (number - 1) * interval '5 hours' AS began,
    least(began + (number - 1) * interval '5 hours' + took_s * interval '1 s', clock_timestamp()) AS ended,
    CASE WHEN size < 0.6 THEN 1 WHEN size < 0.75 THEN 2 WHEN size < 0.85 THEN 4 ELSE 8 END AS gpus,
    CASE WHEN state < 0.7 THEN '{JobState.SUCCEEDED}' WHEN state < 0.88 THEN '{JobState.FAILED}'
        ELSE '{JobState.CANCELLED}' END AS state
FROM attempts WHERE number <= last
UNION ALL
SELECT %(base)s * 2 + one, %(base)s * 2 + one, 1, true, one %% {_TENANTS * _USERS_PER_TENANT},
    clock_timestamp() - one * interval '3 min', NULL, 1,
    CASE WHEN one <= %(running)s THEN '{JobState.ACTIVE}' ELSE '{JobState.QUEUED}' END
FROM generate_series(1, %(running)s + %(queued)s) one
"""
_REQUEST = "jsonb_set(template.request, '{choices,0,gpus}', to_jsonb(drawn.gpus))"
_ROWS: tuple[tuple[type[models.Model], str, dict[str, str]], ...] = (
    (
        Job,
        "bench_drawn drawn JOIN bench_owner owner ON owner.place = drawn.owner AND drawn.is_last",
        {
            "id": "drawn.job", "tenant_id": "owner.tenant_id", "vc_id": "owner.vc_id", "owner_id": "owner.id",
            "state": "drawn.state", "request": _REQUEST, "submitted_at": "drawn.began", "eligible_at": "drawn.began",
            "ended_at": "drawn.ended", "attempt_count": "drawn.number",
        },
    ),
    (
        Attempt,
        f"bench_drawn drawn WHERE drawn.state <> '{JobState.QUEUED}'",
        {
            "id": "drawn.n", "job_id": "drawn.job", "request": _REQUEST, "number": "drawn.number",
            "placed_at": "drawn.began", "running_at": "drawn.began", "ended_at": "drawn.ended",
            "master_port": "drawn.n",
            "state": f"CASE WHEN drawn.ended IS NULL THEN '{AttemptState.RUNNING}' WHEN drawn.is_last THEN drawn.state"
            f" ELSE '{AttemptState.FAILED}' END",
            "reason": f"CASE WHEN NOT drawn.is_last OR drawn.state = '{JobState.FAILED}' THEN 'exit_nonzero' ELSE ''"
            " END",
        },
    ),
    (
        Allocation,
        f"bench_drawn drawn WHERE drawn.state <> '{JobState.QUEUED}'",
        {
            "id": "drawn.n", "attempt_id": "drawn.n", "node_id": "%(node)s + drawn.n %% %(nodes)s",
            "released_at": "drawn.ended", "claimed_at": "drawn.began",
            "state": f"CASE WHEN drawn.ended IS NULL THEN '{AllocationState.ACTIVE}'"
            f" ELSE '{AllocationState.RELEASED}' END",
        },
    ),
    (
        GpuClaim,
        f"bench_drawn drawn, generate_series(1, drawn.gpus::int) AS gpu WHERE drawn.state <> '{JobState.QUEUED}'",
        {
            "id": "%(base)s + row_number() OVER ()", "allocation_id": "drawn.n", "claimed_at": "drawn.began",
            "gpu_id": f"%(gpu)s + (drawn.n * {_GPUS_PER_NODE} + gpu - 1) %% (%(nodes)s * {_GPUS_PER_NODE})",
            "released_at": "drawn.ended",
            # Slots of what runs are each numbered once: no two of them may hold the same.
            "span": f"int8range(drawn.n * {SLOTS * 8} + gpu * {SLOTS}, drawn.n * {SLOTS * 8} + (gpu + 1) * {SLOTS})",
        },
    ),
)  # fmt: skip


def _copied(model: type[models.Model], source: str, values: dict[str, str]) -> str:
    """Inserts a copy of the template for each row of the source, with other values in some columns."""
    columns = [field.column for field in model._meta.concrete_fields if not field.generated]
    chosen = ", ".join(values.get(column, f"template.{column}") for column in columns)
    table = model._meta.db_table
    begin, _, condition = source.partition(" WHERE ")
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {chosen} FROM {begin} CROSS JOIN {table} template"
        f" WHERE template.id = %(base)s{f' AND {condition}' if condition else ''}"
    )
