"""The snapshot of a pool for one decision, read from Postgres in one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from itertools import groupby
from operator import itemgetter
from types import MappingProxyType
from typing import Any

import orjson
from django.db import connection, transaction

from muster.cells.selectors import chain_versions, with_bindings
from muster.common.statements import Statement, statement_of
from muster.dispatch.config.planners import scope_of
from muster.dispatch.config.policy_state import pool_state_of
from muster.dispatch.hooks import reservations_of_other_apps
from muster.dispatch.models import Planner
from muster.dispatch.snapshot.caps import with_caps
from muster.dispatch.snapshot.groups import groups_of, members_whose_turn_it_is
from muster.dispatch.snapshot.kept import WaitingRows
from muster.dispatch.snapshot.nodes import NO_STRIKES, StoredNode, kept_nodes, nodes_of, stored_nodes, views_of
from muster.dispatch.snapshot.parts import Parts, parts_of
from muster.dispatch.snapshot.past_use import with_past_use
from muster.dispatch.snapshot.reservations import reservations_of
from muster.dispatch.snapshot.screening import while_screened, with_screening
from muster.dispatch.snapshot.sizes import sized, with_sizes
from muster.dispatch.snapshot.tree import tree_of, virtual_clusters_in
from muster.fleet.models import Node, Pool
from muster.fleet.strikes import strikes_of
from muster.jobs.attempt.estimates import quantiles_of
from muster.jobs.attempt.resizes import failed_resize_from, in_former_size
from muster.jobs.attempt.runs import screening_run_from
from muster.jobs.fields import request_of_text
from muster.jobs.models import Job
from muster.samples.rates import KnownRate, live_rates, rates_of
from muster.samples.speeds import Stretch, stretch_of
from muster.tenants.models import VirtualCluster
from scheduler import model
from scheduler.model.lifecycle import (
    ATTEMPT_LIVE,
    AllocationState,
    AttemptState,
    JobClass,
    JobState,
    NodeHealth,
    Stage,
)
from scheduler.model.planners import seen_by
from scheduler.model.request import Request
from scheduler.predict.runtimes import Source, corrected_at

_JOB_FIELDS = (
    "id",
    "tenant_id",
    "vc_id",
    "owner_id",
    "priority",
    "klass",
    "request",
    "submitted_at",
    "eligible_at",
    "time_limit_s",
    "deadline_at",
    "grace_s",
    "attained_gpu_s",
    "avoid_nodes",
    "requeued_at",
    "ran_s",
    "expected_s",
    "expected_p10_s",
    "expected_p90_s",
    "memo",
    "preemptible",
    "checkpoints",
    "relax_after_s",
    "screening",
    "failed_resize",
    "group_id",
    "bumped",
    "own_rank",
)
# The places of the fields by which a job depends on the time, if they are set.
_TIMED = tuple(map(_JOB_FIELDS.index, ("expected_s", "relax_after_s", "failed_resize", "screening")))
# More than the jobs that run at once in most pools. The applier reads those again that the snapshot has read.
_MAX_PARSED = 1 << 14
# Every placement runs this query.
# A job with a live attempt is active. Naming the state lets Postgres skip all waiting jobs.
_RUNNING = """
SELECT attempt.id, allocation.node_id, allocation.rank,
       ARRAY(SELECT claim.gpu_id FROM jobs_gpuclaim claim
             WHERE claim.allocation_id = allocation.id AND claim.released_at IS NULL ORDER BY claim.gpu_id),
       allocation.cpus, allocation.memory_mib,
       CASE WHEN (attempt.request->'shares_gpu')::boolean THEN (
           SELECT avg(reading.utilization) FROM jobs_gpuclaim claim JOIN fleet_gpureading reading USING (gpu_id)
           WHERE claim.allocation_id = allocation.id AND claim.released_at IS NULL) END,
       attempt.state, attempt.placed_at, attempt.unreachable_since IS NULL,
       speed.at, speed.count, speed.beside, speed.since, speed.first, speed.steps, alone.per_s, attempt.request,
       attempt.given,
       {job_fields}
FROM jobs_job job
JOIN jobs_attempt attempt ON attempt.job_id = job.id
JOIN jobs_allocation allocation ON allocation.attempt_id = attempt.id
LEFT JOIN samples_speed speed ON speed.attempt_id = attempt.id
LEFT JOIN samples_speedalone alone
    ON alone.job_id = job.id AND alone.gpu_type = speed.gpu_type AND alone.gpus = speed.gpus
WHERE job.state = %s AND attempt.state = ANY(%s) AND allocation.state <> %s AND ({which})
ORDER BY attempt.id, allocation.rank
"""
# A pool may have ten thousand waiting jobs.
_WAITING = """
SELECT {job_fields} FROM jobs_job job WHERE job.pool_id = %s AND job.startable
AND (job.group_id IS NULL OR job.id = ANY(%s::bigint[])) ORDER BY job.id
"""
_NODE_VERSIONS = Statement("SELECT id, version FROM fleet_node WHERE id = ANY(%s)")
_SELECTED = ", ".join(f"job.{name}" for name in _JOB_FIELDS)
_IN_POOL = "job.pool_id = %s"
# Screening runs use no quota of a virtual cluster; they count only where other screening runs are placed.
_WHO_COUNTS = (
    "(job.vc_id = ANY(%s) AND job.stage = 'full') OR job.id = ANY(%s)"
    " OR attempt.id IN (SELECT attempt_id FROM jobs_allocation WHERE node_id = ANY(%s) AND state <> %s)"
)
_SCREENING_COUNTS = f"{_WHO_COUNTS} OR (job.pool_id = %s AND job.stage = '{Stage.SCREENING}')"


NOTHING_SEEN: Mapping[int, model.Node] = MappingProxyType({})


@contextmanager
def one_moment() -> Iterator[None]:
    """A read-only transaction in which every query sees the same moment.

    Inside another transaction, such as that of a caller or of a test, it is that one.
    """
    if connection.in_atomic_block:
        yield
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


def planner_snapshot(
    pool: Pool,
    planner: Planner | None,
    *,
    seed: int,
    screening_of: Collection[int] = (),
    rows: WaitingRows | None = None,
) -> model.Snapshot:
    """The pool as one of its planners sees it now: see `scheduler.model.planners`.

    With `rows`, only those waiting jobs and nodes are read anew that have changed since this process read them.
    """
    with one_moment():
        parts = parts_of(pool.pk)
        scope = scope_of(pool, planner) if parts.planners else None
        snapshot = _pool_snapshot(pool, parts, seed=seed, screening_of=screening_of, planner=planner, rows=rows)
        return snapshot if scope is None else seen_by(snapshot, scope)


def pool_snapshot(
    pool: Pool, *, seed: int, screening_of: Collection[int] = (), planner: Planner | None = None
) -> model.Snapshot:
    """The pool as it is now: every node, every waiting job, every live attempt, and what this planner remembers.

    It includes the virtual clusters that bound the screening runs of these tenants, even without any in the pool.
    """
    with one_moment():
        return _pool_snapshot(pool, parts_of(pool.pk), seed=seed, screening_of=screening_of, planner=planner)


def _pool_snapshot(
    pool: Pool,
    parts: Parts,
    *,
    seed: int,
    screening_of: Collection[int],
    planner: Planner | None,
    rows: WaitingRows | None = None,
) -> model.Snapshot:
    nodes = stored_nodes(nodes_of(pool)) if rows is None else kept_nodes(pool)
    waiting = partial(_waiting, pool, parts, rows)
    snapshot = _whole(pool, parts, nodes, seed=seed, planner=planner, waiting=waiting)
    snapshot = with_sizes(_with_rates(snapshot, live_rates(pool.pk) if parts.rates else {}))
    if parts.caps:
        snapshot = with_caps(snapshot, now=parts.now)
    return with_screening(pool, snapshot, also_of=screening_of)


def snapshot_without_others(job: Job) -> model.Snapshot:
    """The job's pool as it is now, with this waiting job alone and its rates; what is reserved for others stays so."""
    pool = job.pool
    with one_moment():
        parts = parts_of(pool.pk)
        snapshot = _whole(
            pool,
            parts,
            stored_nodes(nodes_of(pool)),
            seed=0,
            planner=None,
            waiting=lambda now: (job_view(job, job_id=job.pk, now=now),),
        )
        reservations = tuple(replace(one, foreign=one.job_id != job.pk) for one in snapshot.reservations)
        rates = {job.pk: rates_of(job)}
        return with_screening(pool, with_sizes(_with_rates(replace(snapshot, reservations=reservations), rates)))


def _whole(
    pool: Pool,
    parts: Parts,
    nodes: Sequence[StoredNode],
    *,
    seed: int,
    planner: Planner | None,
    waiting: Callable[[float], tuple[model.Job, ...]],
) -> model.Snapshot:
    """The pool as it is now, with these nodes and waiting jobs, and without rates."""
    now = parts.now.timestamp()
    strikes = strikes_of([node.row.pk for node in nodes], now=parts.now) if parts.strikes else NO_STRIKES
    queue, running = waiting(now), _running(_IN_POOL, [pool.pk], now=now)
    tree = tree_of(pool, virtual_clusters_in(pool), parts)
    tree["vcs"] = with_past_use(tree["vcs"], pool, planner)
    snapshot = model.Snapshot(
        now=now,
        seed=seed,
        pool_id=pool.pk,
        nodes=views_of(nodes, parts, strikes),
        waiting=queue,
        running=running,
        reservations=_reservations(pool, parts),
        **tree,
        pool_state=pool_state_of(pool, planner),
        groups=groups_of([*queue, *(run.job for run in running)]),
    )
    return _with_bindings(snapshot)


def hardware_snapshot(pool: Pool) -> model.Snapshot:
    """The nodes of the pool that have reported their hardware, in service or not, and its virtual clusters; no jobs."""
    with one_moment():
        parts = parts_of(pool.pk)
        return model.Snapshot(
            now=parts.now.timestamp(),
            seed=0,
            pool_id=pool.pk,
            nodes=views_of(stored_nodes(nodes_of(pool).exclude(health=NodeHealth.PENDING)), parts),
            waiting=(),
            running=(),
            reservations=(),
            **tree_of(pool, virtual_clusters_in(pool), parts),
        )


def held_snapshot(pool: Pool) -> model.Snapshot:
    """The present holdings of the pool's jobs, and its tree of tenants; no waiting jobs."""
    with one_moment():
        parts = parts_of(pool.pk)
        now = parts.now.timestamp()
        return model.Snapshot(
            now=now,
            seed=0,
            pool_id=pool.pk,
            nodes=views_of(stored_nodes(nodes_of(pool)), parts),
            waiting=(),
            running=_running(_IN_POOL, [pool.pk], now=now),
            **tree_of(pool, virtual_clusters_in(pool), parts),
        )


def locked_snapshot(
    pool: Pool,
    vcs: list[VirtualCluster],
    jobs: list[Job],
    nodes: list[Node],
    *,
    seen: Mapping[int, model.Node] = NOTHING_SEEN,
) -> model.Snapshot:
    """A small snapshot for validation: some jobs, the nodes of their gangs, and the attempts that count against them.

    These are the live attempts of the jobs themselves, on these nodes, and of these virtual clusters. The caller has
    locked the virtual clusters, the jobs and the nodes. Queued jobs are waiting ones. Other nodes are as `seen` shortly
    before, unless their version has changed since.
    """
    parts, node_ids = parts_of(pool.pk), {node.pk for node in nodes}
    vc_ids, job_ids, moment = [vc.pk for vc in vcs], [job.pk for job in jobs], parts.now.timestamp()
    params: list[Any]
    who, params = _WHO_COUNTS, [vc_ids, job_ids, sorted(node_ids), AllocationState.RELEASED.value]
    if any(job.stage == Stage.SCREENING for job in jobs):
        who, params = _SCREENING_COUNTS, [*params, pool.pk]
    running = _running(who, params, now=moment)
    # Their GPUs may be on other nodes. Quotas count GPUs by type, so these nodes are included.
    others = {share.node_id for attempt in running for share in attempt.allocations} - node_ids
    unseen = others - _still_as_seen(others, seen)
    if unseen:
        nodes = [*nodes, *Node.objects.filter(pk__in=unseen)]
    elsewhere = [seen[node_id] for node_id in others - unseen]
    snapshot = model.Snapshot(
        now=moment,
        seed=0,
        pool_id=pool.pk,
        nodes=tuple(sorted([*views_of(stored_nodes(nodes), parts), *elsewhere], key=lambda node: node.id)),
        waiting=tuple(job_view(job, job_id=job.pk, now=moment) for job in jobs if job.state == JobState.QUEUED),
        running=running,
        reservations=_reservations(pool, parts),
        **tree_of(pool, vcs, parts),
    )
    snapshot = _with_bindings(snapshot)
    return with_screening(pool, with_caps(snapshot, now=parts.now) if parts.caps else snapshot)


def _reservations(pool: Pool, parts: Parts) -> tuple[model.Reservation, ...]:
    return (
        *(reservations_of_other_apps(pool) if parts.reserved_by_others else ()),
        *(reservations_of(pool) if parts.reservations else ()),
    )


def _with_bindings(snapshot: model.Snapshot) -> model.Snapshot:
    """The snapshot with the cells that running jobs are bound to, if a virtual cluster has any."""
    if not any(vc.cells or vc.pinned for vc in snapshot.vcs):
        return snapshot
    versions = chain_versions(snapshot.pool_id)
    return replace(snapshot, running=with_bindings(snapshot.running), cell_versions=versions)


def _still_as_seen(node_ids: Collection[int], seen: Mapping[int, model.Node]) -> set[int]:
    """The nodes whose stored version is the seen one."""
    known = [node_id for node_id in node_ids if node_id in seen]
    stored = _NODE_VERSIONS.rows(known) if known else ()
    return {node_id for node_id, version in stored if seen[node_id].version == version}


def job_view(job: Job, *, job_id: int, now: float) -> model.Job:
    """A job that is not stored, as a decision sees it."""
    values = {name: getattr(job, name) for name in _JOB_FIELDS}
    return sized(_job(values | {"id": job_id}, now))


def _waiting(pool: Pool, parts: Parts, rows: WaitingRows | None, now: float) -> tuple[model.Job, ...]:
    turns = members_whose_turn_it_is(pool.pk) if parts.groups else []
    if rows is not None:
        return rows.read(_JOB_FIELDS, turns, _job, now=now)
    with connection.cursor() as cursor:
        cursor.execute(_WAITING.format(job_fields=_SELECTED), [pool.pk, turns])
        return tuple(_job(dict(zip(_JOB_FIELDS, row, strict=True)), now) for row in cursor.fetchall())


def _job(row: dict[str, Any], now: float, held_s: float = 0.0) -> model.Job:
    """The job in the row, which is consumed; `held_s` is the age of its live attempt in seconds."""
    for name in ("submitted_at", "eligible_at", "requeued_at"):
        row[name] = row[name].timestamp() if row[name] is not None else 0.0
    if row["deadline_at"] is not None:
        row["deadline_at"] = row["deadline_at"].timestamp()
    row["avoid_nodes"] = tuple(_plain(row["avoid_nodes"]))
    row["policy_state"] = {name: float(value) for name, value in _plain(row.pop("memo")).items()}
    row["job_class"] = JobClass(row.pop("klass"))
    if isinstance(row["request"], str):
        row["request"] = request_of_text(row["request"])
    failed_resize = row.pop("failed_resize")
    if failed_resize is not None and (failed := failed_resize_from(_plain(failed_resize))).until > now:
        row |= {"request": in_former_size(row["request"], failed), "fixed_until": failed.until}
    screening = row.pop("screening")
    if screening is not None:
        row |= while_screened(row, screening_run_from(_plain(screening)))
    _expect(row, held_s)
    relax_after_s = row.pop("relax_after_s")
    # A queued job has no live attempt, because its state changes only after its last allocation is released.
    job = model.Job(**row, still_stopping=False)
    if relax_after_s is not None and now - job.waiting_since >= relax_after_s:
        return replace(job, request=replace(job.request, locality=model.Locality.ANY))
    return job


@lru_cache(maxsize=_MAX_PARSED)
def _timeless_job(fields: tuple[Any, ...]) -> model.Job:
    """The job with these values of `_JOB_FIELDS`, of which none of `_TIMED` is set: the time makes no difference."""
    return _job(dict(zip(_JOB_FIELDS, fields, strict=True)), 0.0)


def _expect(row: dict[str, Any], held_s: float) -> None:
    """Correct the predicted run time by the time that the job has run for, and add the rest of it at the start of the
    live attempt.

    A job without checkpoints starts from the beginning.
    """
    expected_s: float | None = row["expected_s"]
    if expected_s is None:
        row["remaining_s"] = None
        return
    ran_s: float = row["ran_s"] if row["checkpoints"] else 0.0
    now = quantiles_of(expected_s, row["expected_p10_s"], row["expected_p90_s"], Source.HISTORY)
    if row["request"].elastic is None:  # else see `with_sizes`
        now = corrected_at(now, ran_s=ran_s + held_s, limit_s=row["time_limit_s"])
        row["remaining_s"] = max(0.0, now.p50_s - ran_s)
    else:
        row["remaining_s"] = expected_s
    row["expected_s"] = now.p50_s
    if row["expected_p10_s"] is not None:
        row["expected_p10_s"], row["expected_p90_s"] = now.p10_s, now.p90_s


def _plain(value: Any) -> Any:
    """A JSON column, which raw queries return as text."""
    return orjson.loads(value) if isinstance(value, str) else value


def _running(which: str, params: list[Any], *, now: float) -> tuple[model.Running, ...]:
    """The live attempts that match the condition, with everything they hold, in one query."""
    live = [state.value for state in sorted(ATTEMPT_LIVE)]
    read = statement_of(_RUNNING.format(which=which, job_fields=_SELECTED))
    rows = read.rows(JobState.ACTIVE.value, live, AllocationState.RELEASED.value, *params)
    running: list[model.Running] = []
    speeds: dict[int, tuple[Stretch, float | None]] = {}
    for attempt_id, group in groupby(rows, key=itemgetter(0)):
        shares = list(group)
        state, placed_at, reachable, *measured, alone_per_s, request, given = shares[0][7:19]
        fields = shares[0][19:]
        stretch = stretch_of(*measured)
        if stretch is not None and state == AttemptState.RUNNING:
            speeds[attempt_id] = (stretch, alone_per_s)
        if all(fields[place] is None for place in _TIMED):
            job = _timeless_job(fields)
        else:
            job = _job(dict(zip(_JOB_FIELDS, fields, strict=True)), now, max(0.0, now - placed_at.timestamp()))
        if len(job.request.choices) > 1:
            # What runs has the size of one choice, which comes first; a policy may move the job to another one.
            gpu_type = (request_of_text(request) if isinstance(request, str) else request).first.gpu_type
            choices = sorted(job.request.choices, key=lambda choice: choice.gpu_type != gpu_type)
            job = replace(job, request=replace(job.request, choices=tuple(choices)))
        if job.request.shares_gpu:
            job = replace(job, utilization=_utilization([share[6] for share in shares]))
        if not reachable and job.preemptible:
            # An unreachable attempt cannot be stopped: it keeps its GPUs until its eviction deadline.
            job = replace(job, preemptible=False)
        running.append(
            model.Running(
                attempt_id=attempt_id,
                job=job,
                state=AttemptState(state),
                allocations=tuple(
                    model.AllocationView(node_id, rank, tuple(gpu_ids), cpus, memory_mib, job.slots)
                    for _, node_id, rank, gpu_ids, cpus, memory_mib, *_ in shares
                ),
                placed_at=placed_at.timestamp(),
                given=tuple(sorted(_plain(given).items())),
            )
        )
    return _measured(running, speeds) if speeds else tuple(running)


def _with_rates(snapshot: model.Snapshot, rates: Mapping[int, Sequence[KnownRate]]) -> model.Snapshot:
    """The snapshot with the known rates of jobs, and without choices on which a job does not run.

    A running job keeps the choice that it has: where its rate is 0, the policy moves it.
    """
    if not rates:
        return snapshot
    type_of = {gpu.id: gpu.type for node in snapshot.nodes for gpu in node.gpus}
    types = sorted(set(type_of.values()))

    def informed(job: model.Job, allocations: Sequence[model.AllocationView] = ()) -> model.Job:
        if job.id not in rates:
            return job
        known = tuple(
            model.KnownRate(one.gpu_type, one.gpus, model.Rate(one.per_s, one.deviation, one.source), one.slowdown)
            for one in rates[job.id]
        )
        held = {type_of.get(gpu_id) for share in allocations for gpu_id in share.gpu_ids}
        stuck = {one.gpu_type for one in known if one.rate.mean == 0} - held
        return replace(job, rates=known, request=_without(job.request, stuck, types) if stuck else job.request)

    return replace(
        snapshot,
        waiting=tuple(map(informed, snapshot.waiting)),
        running=tuple(replace(run, job=informed(run.job, run.allocations)) for run in snapshot.running),
    )


def _without(request: Request, stuck: Collection[str], types: Sequence[str]) -> Request:
    """The request without GPU types on which the job does not run; unchanged where no other type is left."""
    choices = tuple(choice for choice in request.choices_among(types) if choice.gpu_type not in stuck)
    return replace(request, choices=choices) if choices else request


def _measured(
    running: Sequence[model.Running], speeds: Mapping[int, tuple[Stretch, float | None]]
) -> tuple[model.Running, ...]:
    """The live attempts with their known speeds, measured beside the jobs that share their GPUs now."""
    holders: defaultdict[int, list[model.Running]] = defaultdict(list)
    for run in running:
        if run.job.request.shares_gpu:
            for share in run.allocations:
                for gpu_id in share.gpu_ids:
                    holders[gpu_id].append(run)
    return tuple(
        _with_speed(run, *speeds[run.attempt_id], holders) if run.attempt_id in speeds else run for run in running
    )


def _with_speed(
    run: model.Running, stretch: Stretch, alone_per_s: float | None, holders: Mapping[int, list[model.Running]]
) -> model.Running:
    beside = {
        other.attempt_id if other.state is AttemptState.RUNNING else -other.attempt_id
        for share in run.allocations
        for gpu_id in share.gpu_ids
        for other in holders.get(gpu_id, ())
        if other is not run
    }
    per_s = stretch.per_s
    if per_s is None or beside != set(stretch.beside) or any(attempt_id < 0 for attempt_id in beside):
        return run
    # Running slightly faster beside another job than alone is noise.
    rate = min(1.0, round(per_s / alone_per_s, 2)) if beside and alone_per_s else None
    return replace(run, rate=rate, speed=per_s)


def _utilization(percents: Iterable[float | None]) -> float | None:
    """The utilization of a gang's GPUs by their newest readings, 0 to 1; None without readings."""
    read = [percent for percent in percents if percent is not None]
    return round(sum(read) / len(read) / 100, 2) if read else None
