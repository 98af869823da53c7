"""Starts jobs in the database: their attempts, allocations and GPU claims, each kind in one statement."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import F
from psycopg2.extras import NumericRange

from muster.common.statements import Statement
from muster.dispatch.chains import write_bindings
from muster.events.services import record, wake_node
from muster.fleet.models import Node, Pool
from muster.jobs.models import Allocation, Attempt, GpuClaim, Job
from muster.jobs.runs import next_run, request_given
from muster.jobs.transitions import move_jobs
from scheduler.model import SLOTS, AllocationView, Gpu
from scheduler.model.lifecycle import ATTEMPT_LIVE, JobState, Stage
from scheduler.model.plan import Place
from scheduler.model.request import Choice, Request

# Below the range of ephemeral ports.
FIRST_PORT, LAST_PORT = 20_000, 29_999
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
    shares: Sequence[AllocationView]
    nodes: Sequence[Node]

    @property
    def address(self) -> str:
        return self.nodes[0].address or self.nodes[0].name


def request_at(job: Job, place: Place, gpus: Mapping[int, Gpu]) -> Request:
    """What the job is given at the place, by the types of its GPUs.

    Raises:
        Invalid: the job does not accept it.
    """
    share = min(place.allocations, key=lambda share: share.rank)
    kind = gpus[share.gpu_ids[0]].type if share.gpu_ids else None
    return request_given(job, Choice(kind, len(share.gpu_ids), share.cpus, share.memory_mib))


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
    ports, parts = _Ports(start.address for start in starts), _Parts(start.shares for start in starts)
    attempts = Attempt.objects.bulk_create(
        [
            Attempt(
                job=start.job,
                number=start.job.attempt_count + 1,
                stage=start.job.stage,
                request=start.request,
                time_limit_s=run.time_limit_s,
                grace_s=run.grace_s,
                master_addr=start.address,
                master_port=ports.take(start.address, start.job.pk),
                stop_after_s=pool.stop_after_s,
            )
            for start, run in ((start, next_run(start.job)) for start in starts)
        ]
    )
    shares = [share for start in starts for share in start.shares]
    allocations = Allocation.objects.bulk_create(
        [
            Allocation(
                attempt=attempt, node_id=share.node_id, rank=share.rank, cpus=share.cpus, memory_mib=share.memory_mib
            )
            for attempt, start in zip(attempts, starts, strict=True)
            for share in start.shares
        ]
    )
    write_bindings(allocations, shares)
    GpuClaim.objects.bulk_create(
        [
            GpuClaim(allocation=allocation, gpu_id=gpu_id, span=parts.take(gpu_id, share.slots))
            for allocation, share in zip(allocations, shares, strict=True)
            for gpu_id in share.gpu_ids
        ]
    )
    _tell(starts)


def _start(job: Job, place: Place, request: Request, nodes: Mapping[int, Node]) -> _Start:
    shares = sorted(place.allocations, key=lambda share: share.rank)
    return _Start(job, request, shares, [nodes[share.node_id] for share in shares])


def _tell(starts: Sequence[_Start]) -> None:
    """Change the states of the jobs, record the events, and wake the nodes' agents."""
    told = {
        start.job.pk: {"attempt": start.job.attempt_count + 1, "nodes": [node.name for node in start.nodes]}
        | ({"stage": start.job.stage} if start.job.stage == Stage.SCREENING else {})
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

    def take(self, gpu_id: int, slots: int) -> NumericRange:
        """The first free slots of the GPU; if there are none, slots that the index refuses."""
        parts = [(first, first + slots) for first in range(gpu_id * SLOTS, (gpu_id + 1) * SLOTS, slots)]
        taken = self._taken[gpu_id]
        part = next((one for one in parts if all(one[1] <= low or high <= one[0] for low, high in taken)), parts[0])
        taken.append(part)
        return NumericRange(*part, "[)")


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
