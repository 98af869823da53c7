"""Happenings in a cluster, one step a function: the tests of this folder tell their stories with them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Any, Generic, TypeVar

from django.db import connection, models, transaction
from django.db.models import F

from muster.accounts.models import User
from muster.common.models import DatabaseNow
from muster.dispatch.config.settings import config_of
from muster.dispatch.cycles import CycleResult, run_cycle
from muster.dispatch.snapshot.snapshot import pool_snapshot
from muster.events.models import Event
from muster.events.selectors import EventCursor, newest
from muster.fleet.leases import tick
from muster.fleet.models import Node, NodeLease, Pool, Tick
from muster.jobs.attempt.attempts import End, claim_allocation, end_allocation, report_running
from muster.jobs.attempt.claimants import Claimant
from muster.jobs.attempt.gangs import Rank
from muster.jobs.models import Allocation, Attempt, Job
from muster.jobs.services import submit_job
from muster.tenants.models import Tenant, VirtualCluster
from scheduler.engine.cycle import decide
from scheduler.model import Snapshot
from scheduler.model.lifecycle import ATTEMPT_LIVE, AllocationState
from scheduler.model.plan import Place
from scheduler.model.reasons import Reason
from tests.factories import make_node, make_pool, make_tenant, make_user, make_vc

BOOT = "boot-1"
WAIT_S = 20.0
# Others' transactions last as long as their tests do.
SETTLED_WITHIN_S = 90.0

T = TypeVar("T")
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class World:
    """A pool with nodes, and one user who may use one virtual cluster of it."""

    pool: Pool
    tenant: Tenant
    user: User
    vc: VirtualCluster
    nodes: list[Node]


def make_world(*, nodes: int = 1, gpus: int = 4, quota: int = 1000, **pool_fields: Any) -> World:
    """A pool of equal nodes with A100, and a user whose virtual cluster may use `quota` of them.

    Stories submit jobs before their nodes join, and jobs that never fit: the tenant waits for hardware.
    """
    pool = make_pool(**pool_fields)
    tenant = make_tenant(wait_for_hardware=True)
    return World(
        pool=pool,
        tenant=tenant,
        user=make_user(tenant=tenant),
        vc=make_vc(tenant, pool, quotas={"A100": quota}),
        nodes=[make_node(pool, gpus=gpus, credential=f"credential-{next(_numbers)}") for _ in range(nodes)],
    )


def submit(world: World, **spec: Any) -> Job:
    """A job for one GPU that was just submitted, unless the spec says otherwise."""
    data = {"command": "true", "gpus": 1, "vc": world.vc.name, **spec}
    return submit_job(user=world.user, data=data)[0]


def cycle(world: World) -> CycleResult:
    """One scheduling cycle of the pool."""
    return run_cycle(world.pool.pk, trigger="command")


def place(world: World, **spec: Any) -> Attempt:
    """The attempt of a job that was just submitted and placed."""
    job = submit(world, **spec)
    cycle(world)
    return live_attempt(job)


def start(world: World, **spec: Any) -> Attempt:
    """The attempt of a job that runs."""
    attempt = place(world, **spec)
    for allocation in ranks(attempt):
        claim(allocation)
    for allocation in ranks(attempt):
        run(allocation)
    attempt.refresh_from_db()
    return attempt


def rank_of(allocation: Allocation, *, fence: int | None = None) -> Rank:
    """The rank as its executor names it."""
    return Rank(allocation.node_id, allocation.pk, allocation.attempt_id if fence is None else fence)


def claim(allocation: Allocation, *, boot_id: str = BOOT, state_id: str = "", fence: int | None = None) -> Allocation:
    """The agent of the allocation's node claims it."""
    return claim_allocation(rank_of(allocation, fence=fence), claimant=Claimant(boot_id, state_id))


def run(allocation: Allocation) -> None:
    """The agent tells that the rank's processes run."""
    report_running(rank_of(allocation))


def end(
    allocation: Allocation,
    reason: Reason = Reason.COMPLETED,
    *,
    exit_code: int | None = None,
    detail: str = "",
    started: bool = True,
    boot_id: str = BOOT,
    fence: int | None = None,
    tail: str = "",
) -> None:
    """The agent reports that no process of the rank is left. By default, the exit code follows from the reason."""
    if exit_code is None:
        exit_code = {Reason.COMPLETED: 0, Reason.EXIT_NONZERO: 1}.get(reason)
    end_allocation(
        rank_of(allocation, fence=fence),
        claimant=Claimant(boot_id, allocation.state_id),
        end=End(reason=reason, exit_code=exit_code, detail=detail, started=started, tail=tail),
    )


def live_attempt(job: Job) -> Attempt:
    """The job's one attempt that has not ended."""
    return Attempt.objects.get(job=job, state__in=ATTEMPT_LIVE)


def ranks(attempt: Attempt) -> list[Allocation]:
    """The attempt's allocations as they are now, by rank."""
    return list(
        Allocation.objects.filter(attempt=attempt).select_related("node", "attempt__job__pool").order_by("rank")
    )


def held(attempt: Attempt) -> list[Allocation]:
    """The attempt's allocations that have not been released."""
    return [allocation for allocation in ranks(attempt) if allocation.state != AllocationState.RELEASED]


def now_of(row: models.Model) -> Any:
    """The row as it is now."""
    return type(row).objects.get(pk=row.pk)


def states(job: Job) -> tuple[str, str, list[str]]:
    """The state of the job, of its latest attempt, and of that attempt's allocations by rank."""
    attempt = Attempt.objects.filter(job=job).order_by("-number").first()
    return (
        now_of(job).state,
        attempt.state if attempt else "",
        [allocation.state for allocation in ranks(attempt)] if attempt else [],
    )


def kinds(job: Job) -> list[str]:
    """The kinds of the job's events in their order."""
    return list(Event.objects.filter(job_id=job.pk).order_by("pk").values_list("kind", flat=True))


def let_pass(seconds: float, row: models.Model, *fields: str) -> None:
    """Move these times of the row back by `seconds`: no test waits for a clock."""
    back = {field: F(field) - timedelta(seconds=seconds) for field in fields}
    type(row).objects.filter(pk=row.pk).update(**back)


def let_answer(seconds: float) -> None:
    """The platform has answered without a gap for so long."""
    for part in ("web", "reaper"):
        tick(part)
        let_pass(seconds, Tick.objects.get(name=part), "answering_since")


def silent(node: Node, seconds: float) -> None:
    """The node has not been heard for so long."""
    NodeLease.objects.filter(pk=node.pk).update(seen_at=DatabaseNow() - timedelta(seconds=seconds))


def planned_places(world: World) -> tuple[list[Place], Snapshot]:
    """The places of a cycle now, and the snapshot that it saw: an applier may be late with them."""
    snapshot = pool_snapshot(world.pool, seed=1)
    return list(decide(snapshot, config_of(world.pool)).places), snapshot


class Other(threading.Thread, Generic[T]):
    """Runs a function in a thread with its own database connection."""

    def __init__(self, act: Callable[[], T]) -> None:
        super().__init__(daemon=True)
        self._act = act
        self._result: T | None = None
        self._error: Exception | None = None
        self._backend_pid = 0
        self._connected = threading.Event()
        self.start()

    def run(self) -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_backend_pid()")
                self._backend_pid = cursor.fetchone()[0]
            self._connected.set()
            self._result = self._act()
        except Exception as error:  # noqa: BLE001 (raised by `result`)
            self._error = error
        finally:
            self._connected.set()
            connection.close()

    def until_it_waits(self) -> Other[T]:
        """Returns once Postgres makes the other wait for a lock; fails if the other ends without having waited."""
        assert self._connected.wait(WAIT_S)
        with connection.cursor() as cursor:
            while True:
                cursor.execute("SELECT cardinality(pg_blocking_pids(%s)) > 0", [self._backend_pid])
                if cursor.fetchone()[0]:
                    return self
                assert self.is_alive(), f"it did not wait: {self._error or self._result}"

    def result(self) -> T:
        """The result of the other's act, or the error it raised."""
        self.join(WAIT_S)
        assert not self.is_alive(), "it still waits"
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]


def unsound() -> list[str]:
    """Invariants that this database breaks."""
    found = []
    with transaction.atomic(), connection.cursor() as cursor:
        # Postgres may have counted the tables when they were empty. Nested loops over a thousand claims take minutes.
        cursor.execute("SET LOCAL enable_nestloop = off")
        for sentence, query in _NEVER.items():
            cursor.execute(query)
            found += [f"{sentence}: {row}" for row in cursor.fetchall()]
        cursor.execute("SET LOCAL enable_nestloop = on")
    return found


_NEVER = {
    "a GPU slot belongs to two": """
        SELECT one.id, other.id FROM jobs_gpuclaim one JOIN jobs_gpuclaim other
        ON one.id < other.id AND one.span && other.span AND one.released_at IS NULL AND other.released_at IS NULL""",
    "a released allocation holds GPUs": """
        SELECT held.id FROM jobs_allocation held JOIN jobs_gpuclaim claim ON claim.allocation_id = held.id
        WHERE held.state = 'released' AND claim.released_at IS NULL""",
    "an allocation that is held has lost its GPUs": """
        SELECT held.id FROM jobs_allocation held JOIN jobs_gpuclaim claim ON claim.allocation_id = held.id
        WHERE held.state <> 'released' AND claim.released_at IS NOT NULL""",
    "an attempt that ended holds allocations": """
        SELECT attempt.id FROM jobs_attempt attempt JOIN jobs_allocation held ON held.attempt_id = attempt.id
        WHERE attempt.ended_at IS NOT NULL AND held.state <> 'released'""",
    "a live attempt holds nothing": """
        SELECT attempt.id FROM jobs_attempt attempt WHERE attempt.ended_at IS NULL AND NOT EXISTS (
        SELECT FROM jobs_allocation held WHERE held.attempt_id = attempt.id AND held.state <> 'released')""",
    "an active job has no live attempt, or another job has one": """
        SELECT job.id, job.state FROM jobs_job job WHERE (job.state = 'active') <> EXISTS (
        SELECT FROM jobs_attempt attempt WHERE attempt.job_id = job.id AND attempt.ended_at IS NULL)""",
    "a node has more CPUs or memory in use than it has": """
        SELECT node.name FROM fleet_node node JOIN jobs_allocation held ON held.node_id = node.id
        WHERE held.state <> 'released' GROUP BY node.id
        HAVING sum(held.cpus) > node.cpus OR sum(held.memory_mib) > node.memory_mib""",
    "a GPU that is kept for a job was given to another": """
        SELECT kept.gpu_id FROM jobs_reservedgpu kept
        JOIN jobs_reservation reservation ON reservation.job_id = kept.reservation_id
        JOIN jobs_gpuclaim claim ON claim.gpu_id = kept.gpu_id AND claim.claimed_at > reservation.created_at
        JOIN jobs_allocation held ON held.id = claim.allocation_id
        JOIN jobs_attempt attempt ON attempt.id = held.attempt_id
        WHERE attempt.job_id <> kept.reservation_id AND reservation.until > clock_timestamp()""",
    "a GPU of a standing offer is held, or one of an ended offer is kept": """
        SELECT kept.gpu_id, offer.state FROM offers_offeredgpu kept JOIN offers_offer offer ON offer.id = kept.offer_id
        WHERE offer.state <> 'standing' OR (offer.expires_at > clock_timestamp() AND EXISTS (
        SELECT FROM jobs_gpuclaim claim WHERE claim.gpu_id = kept.gpu_id AND claim.released_at IS NULL))""",
    "something is kept for a job that has it, or has ended": """
        SELECT job.id, job.state FROM jobs_reservation reservation JOIN jobs_job job ON job.id = reservation.job_id
        WHERE job.state NOT IN ('queued', 'active') OR (job.state = 'active' AND NOT EXISTS (
        SELECT FROM jobs_attempt attempt WHERE attempt.job_id = job.id AND attempt.state = 'stopping'))""",
    "a job group has more active members than its budget": """
        SELECT grp.id, count(*) FROM jobs_jobgroup grp JOIN jobs_job job ON job.group_id = grp.id
        WHERE job.state = 'active' GROUP BY grp.id HAVING count(*) > grp.parallel""",
    "a virtual cluster holds more than its quota": """
        SELECT vc.name, gpu.type, count(DISTINCT gpu.id) FROM jobs_gpuclaim claim
        JOIN jobs_allocation held ON held.id = claim.allocation_id
        JOIN jobs_attempt attempt ON attempt.id = held.attempt_id
        JOIN jobs_job job ON job.id = attempt.job_id
        JOIN tenants_virtualcluster vc ON vc.id = job.vc_id
        JOIN fleet_gpu gpu ON gpu.id = claim.gpu_id
        LEFT JOIN tenants_quota quota ON quota.vc_id = vc.id AND quota.gpu_type = gpu.type
        JOIN fleet_pool pool ON pool.id = vc.pool_id
        WHERE claim.released_at IS NULL AND attempt.stage = 'full' AND pool.admission <> 'tree'
        AND (pool.admission <> 'hived'
        OR EXISTS (SELECT FROM cells_binding binding WHERE binding.allocation_id = held.id))
        GROUP BY vc.id, vc.name, gpu.type
        HAVING count(DISTINCT gpu.id) > coalesce(max(quota.gpus), 0)""",
    "a tenant holds more than the shares of its tree": """
        SELECT vc.tenant_id, gpu.type, count(DISTINCT gpu.id) FROM jobs_gpuclaim claim
        JOIN jobs_allocation held ON held.id = claim.allocation_id
        JOIN jobs_attempt attempt ON attempt.id = held.attempt_id
        JOIN jobs_job job ON job.id = attempt.job_id
        JOIN tenants_virtualcluster vc ON vc.id = job.vc_id
        JOIN fleet_gpu gpu ON gpu.id = claim.gpu_id
        JOIN fleet_pool pool ON pool.id = vc.pool_id
        WHERE claim.released_at IS NULL AND attempt.stage = 'full' AND pool.admission = 'tree'
        AND attempt.state <> 'stopping'
        GROUP BY vc.tenant_id, vc.pool_id, gpu.type HAVING count(DISTINCT gpu.id) > (
        SELECT coalesce(sum(quota.gpus), 0) FROM tenants_quota quota
        JOIN tenants_virtualcluster one ON one.id = quota.vc_id
        WHERE one.tenant_id = vc.tenant_id AND one.pool_id = vc.pool_id AND quota.gpu_type = gpu.type)""",
    "a job waits or runs in another pool than its own, and is not screened, or is screened in its own": """
        SELECT job.id, job.pool_id, job.stage FROM jobs_job job JOIN tenants_virtualcluster vc ON vc.id = job.vc_id
        WHERE job.state IN ('queued', 'active') AND (job.pool_id = vc.pool_id) <> (job.stage = 'full')""",
    "what a job holds lies in another pool than that of its queue, or its attempt is of another stage": """
        SELECT job.id, node.name, attempt.stage FROM jobs_allocation held
        JOIN jobs_attempt attempt ON attempt.id = held.attempt_id JOIN jobs_job job ON job.id = attempt.job_id
        JOIN fleet_node node ON node.id = held.node_id
        WHERE held.state <> 'released' AND (node.pool_id <> job.pool_id OR attempt.stage <> job.stage)""",
    "a live attempt has not what it was given": """
        SELECT job.id, count(claim.id) FROM jobs_attempt attempt JOIN jobs_job job ON job.id = attempt.job_id
        JOIN jobs_allocation held ON held.attempt_id = attempt.id
        LEFT JOIN jobs_gpuclaim claim ON claim.allocation_id = held.id
        WHERE attempt.ended_at IS NULL GROUP BY job.id, attempt.id HAVING count(DISTINCT held.id)
        <> (attempt.request->>'nodes')::int OR count(claim.id) <> (attempt.request->>'nodes')::int
        * (attempt.request#>>'{choices,0,gpus}')::int""",
    "a live screening run has another request than its job waits for": """
        SELECT job.id FROM jobs_attempt attempt JOIN jobs_job job ON job.id = attempt.job_id
        WHERE attempt.ended_at IS NULL AND attempt.stage = 'screening'
        AND ((job.screening->'request') - 'choices' <> attempt.request - 'choices'
        OR (job.screening#>'{request,choices,0}') - 'gpu_type' <> (attempt.request#>'{choices,0}') - 'gpu_type')""",
    "two jobs share a GPU that must not": """
        SELECT claim.gpu_id, count(*) FROM jobs_gpuclaim claim
        JOIN jobs_allocation held ON held.id = claim.allocation_id
        JOIN jobs_attempt attempt ON attempt.id = held.attempt_id
        JOIN jobs_job job ON job.id = attempt.job_id
        JOIN fleet_gpu gpu ON gpu.id = claim.gpu_id
        WHERE claim.released_at IS NULL GROUP BY claim.gpu_id, gpu.memory_mib HAVING count(*) > 1 AND NOT (
        count(*) = 2 AND bool_and((attempt.request->'shares_gpu')::boolean)
        AND count(DISTINCT job.vc_id) = 1 AND count(DISTINCT job.klass) = 1
        AND sum((attempt.request->>'gpu_memory_mib')::int) <= gpu.memory_mib)""",
}


def until_settled() -> None:
    """Returns once every event so far can be told: a transaction in any database of the server holds them back."""
    deadline = time.monotonic() + SETTLED_WITHIN_S
    newest_event = Event.objects.order_by("tx", "id").values_list("tx", "id").last()
    while newest_event and EventCursor(*newest_event) > newest():
        assert time.monotonic() < deadline, "another transaction goes on for ever"
