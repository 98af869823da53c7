"""Starts jobs in the database: their attempts, allocations and GPU claims, all in one statement."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import orjson
from django.db.models import F

from muster.cells.models import Binding
from muster.common.statements import Statement
from muster.events.services import record, wake_node
from muster.fleet.models import Node, Pool
from muster.jobs.attempt.runs import next_run, request_given
from muster.jobs.models import GpuClaim, Job
from muster.jobs.transitions import move_jobs
from scheduler.model import SLOTS, AllocationView, Gpu
from scheduler.model.codec import to_json
from scheduler.model.given import Given
from scheduler.model.lifecycle import ATTEMPT_LIVE, AllocationState, AttemptState, JobState, Observed, Stage
from scheduler.model.plan import Place
from scheduler.model.request import Choice, Request

# Below the range of ephemeral ports.
FIRST_PORT, LAST_PORT = 20_000, 29_999
# For Django to put together as many rows took longer than for Postgres to store them.
_WRITE = Statement("""
WITH attempt AS (
    INSERT INTO jobs_attempt (
        state, stop_after_s, outcome, reason, reason_detail,
        job_id, number, stage, request, given, time_limit_s, grace_s, master_addr, master_port
    )
    SELECT %s, %s, '', '', '',
        job_id, number, stage, request::jsonb, given::jsonb, time_limit_s, grace_s, master_addr, master_port
    FROM unnest(
        %s::bigint[], %s::integer[], %s::text[], %s::text[], %s::text[], %s::float8[], %s::float8[], %s::text[],
        %s::integer[]
    ) AS new(job_id, number, stage, request, given, time_limit_s, grace_s, master_addr, master_port)
    RETURNING id, job_id
), allocation AS (
    INSERT INTO jobs_allocation (
        state, observed, boot_id, end_reason, end_detail, attempt_id, node_id, rank, cpus, memory_mib
    )
    SELECT %s, %s, '', '', '', attempt.id, node_id, rank, cpus, memory_mib
    FROM unnest(%s::bigint[], %s::bigint[], %s::integer[], %s::integer[], %s::bigint[])
        AS new(job_id, node_id, rank, cpus, memory_mib)
    JOIN attempt ON attempt.job_id = new.job_id
    ORDER BY attempt.id, rank
    RETURNING id, attempt_id, rank
), claim AS (
    INSERT INTO jobs_gpuclaim (allocation_id, gpu_id, span)
    SELECT allocation.id, gpu_id, int8range(first, last)
    FROM unnest(%s::bigint[], %s::integer[], %s::bigint[], %s::bigint[], %s::bigint[])
        AS new(job_id, rank, gpu_id, first, last)
    JOIN attempt ON attempt.job_id = new.job_id
    JOIN allocation ON allocation.attempt_id = attempt.id AND allocation.rank = new.rank
    ORDER BY allocation.id, first
)
SELECT attempt.job_id, allocation.rank, allocation.id
FROM allocation JOIN attempt ON attempt.id = allocation.attempt_id
""")
_TAKEN_PORTS = Statement("""
SELECT master_addr, master_port FROM jobs_attempt WHERE master_addr = ANY(%s) AND state = ANY(%s)
""")


class NoPort(Exception):
    """Every port of an address is taken; the message names the address."""


@dataclass(frozen=True, slots=True)
class _Start:
    """A job that starts, and its ranks in order; the first rank has the gang's address."""

    job: Job
    request: Request
    given: Given
    shares: Sequence[AllocationView]
    nodes: Sequence[Node]

    @property
    def address(self) -> str:
        return self.nodes[0].address or self.nodes[0].name


def request_at(job: Job, place: Place, gpus: Mapping[int, Gpu]) -> Request:
    """The job's resources at the place, by the types of its GPUs.

    Raises:
        Invalid: the job does not accept it.
    """
    share = min(place.allocations, key=lambda share: share.rank)
    kind = gpus[share.gpu_ids[0]].type if share.gpu_ids else None
    choice = Choice(kind, len(share.gpu_ids), share.cpus, share.memory_mib)
    return request_given(job, choice, len(place.allocations))


def launch(pool: Pool, places: Iterable[tuple[Job, Place, Request]], nodes: Mapping[int, Node]) -> None:
    """Start the queued jobs in their places with what they are given there.

    The caller has locked the jobs and the nodes, and has validated the plan.

    Raises:
        NoPort: an address has no free port.
        DatabaseError: another transaction was faster; the caller must roll back.
    """
    starts = [_start(job, place, request, nodes) for job, place, request in places]
    if not starts:
        return
    _write(pool, starts)
    _tell(starts)


def _start(job: Job, place: Place, request: Request, nodes: Mapping[int, Node]) -> _Start:
    shares = sorted(place.allocations, key=lambda share: share.rank)
    return _Start(job, request, place.given, shares, [nodes[share.node_id] for share in shares])


def _write(pool: Pool, starts: Sequence[_Start]) -> None:
    """Store the attempts with their allocations, claims and cells; a claim has a GPU and its first and last slot."""
    ports, parts = _Ports(start.address for start in starts), _Parts(start.shares for start in starts)
    runs = [next_run(start.job) for start in starts]
    shares = [(start.job.pk, share) for start in starts for share in start.shares]
    claims = [
        (job_id, share.rank, gpu_id, *parts.take(gpu_id, share.slots))
        for job_id, share in shares
        for gpu_id in share.gpu_ids
    ]
    written = _WRITE.rows(
        AttemptState.PLACED.value,
        pool.stop_after_s,
        [start.job.pk for start in starts],
        [start.job.attempt_count + 1 for start in starts],
        [str(start.job.stage) for start in starts],
        [orjson.dumps(to_json(start.request)).decode() for start in starts],
        [orjson.dumps(dict(start.given)).decode() for start in starts],
        [run.time_limit_s for run in runs],
        [run.grace_s for run in runs],
        [start.address for start in starts],
        [ports.take(start.address, start.job.pk) for start in starts],
        AllocationState.RESERVED.value,
        Observed.NONE.value,
        [job_id for job_id, _ in shares],
        [share.node_id for _, share in shares],
        [share.rank for _, share in shares],
        [share.cpus for _, share in shares],
        [share.memory_mib for _, share in shares],
        *map(list, zip(*claims, strict=True) if claims else [[]] * 5),
    )
    ids = {(job_id, rank): pk for job_id, rank, pk in written}
    _write_bindings([ids[job_id, share.rank] for job_id, share in shares], [share for _, share in shares])


def _tell(starts: Sequence[_Start]) -> None:
    """Change the states of the jobs, record the events, and wake the nodes' agents."""
    told = {
        start.job.pk: {"attempt": start.job.attempt_count + 1, "nodes": [node.name for node in start.nodes]}
        | ({"stage": start.job.stage} if start.job.stage == Stage.SCREENING else {})
        | ({"given": dict(start.given)} if start.given else {})
        for start in starts
    }
    jobs = [start.job for start in starts]
    move_jobs(jobs, JobState.ACTIVE, actor="scheduler", data=told, attempt_count=F("attempt_count") + 1)
    for job in jobs:
        data = told[job.pk] | {"state": "placed"}
        record("attempt.placed", actor="scheduler", tenant_id=job.tenant_id, job_id=job.pk, data=data)
    for node_id in sorted({share.node_id for start in starts for share in start.shares}):
        wake_node(node_id)


class _Parts:
    """The taken slots of shared GPUs, with those given in this transaction; the nodes are locked."""

    def __init__(self, gangs: Iterable[Sequence[AllocationView]]) -> None:
        self._taken: dict[int, list[tuple[int, int]]] = defaultdict(list)  # ranges over all slots of all GPUs
        parts = [share for shares in gangs for share in shares if share.slots < SLOTS]
        if parts:
            gpu_ids = {gpu_id for share in parts for gpu_id in share.gpu_ids}
            claims = GpuClaim.objects.filter(gpu__in=gpu_ids, released_at__isnull=True)
            for gpu_id, *part in claims.values_list("gpu_id", "span__startswith", "span__endswith"):
                self._taken[gpu_id].append((part[0], part[1]))

    def take(self, gpu_id: int, slots: int) -> tuple[int, int]:
        """The first free slots of the GPU; if there are none, slots that the index refuses."""
        parts = [(first, first + slots) for first in range(gpu_id * SLOTS, (gpu_id + 1) * SLOTS, slots)]
        taken = self._taken[gpu_id]
        part = next((one for one in parts if all(one[1] <= low or high <= one[0] for low, high in taken)), parts[0])
        taken.append(part)
        return part


class _Ports:
    """The ports of live attempts at some addresses, with those given in this transaction."""

    def __init__(self, addresses: Iterable[str]) -> None:
        self._taken: defaultdict[str, set[int]] = defaultdict(set)
        for address, port in _TAKEN_PORTS.rows(sorted(set(addresses)), [state.value for state in sorted(ATTEMPT_LIVE)]):
            self._taken[address].add(port)

    def take(self, address: str, job_id: int) -> int:
        """A port that no live attempt at the address uses; each job starts its search at another port."""
        count = LAST_PORT - FIRST_PORT + 1
        for step in range(count):
            port = FIRST_PORT + (job_id + step) % count
            if port not in self._taken[address]:
                self._taken[address].add(port)
                return port
        raise NoPort(f"every port of {address} is taken")


def _write_bindings(allocation_ids: Sequence[int], shares: Sequence[AllocationView]) -> None:
    """Write which GPUs of new allocations count for which virtual cells; both in one order."""
    rows: list[Binding] = []
    for allocation_id, share in zip(allocation_ids, shares, strict=True):
        if not share.cells:
            continue
        by_cell: dict[str, list[int]] = {}
        for gpu_id, cell in zip(share.gpu_ids, share.cells, strict=True):
            by_cell.setdefault(cell, []).append(gpu_id)
        rows += [Binding(allocation_id=allocation_id, cell=cell, gpu_ids=gpu_ids) for cell, gpu_ids in by_cell.items()]
    if rows:
        Binding.objects.bulk_create(rows)
