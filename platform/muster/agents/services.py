"""The calls of an agent; the endpoint brings the bodies and carries the answers."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from zlib import crc32

from django.conf import settings
from django.db import connection

from muster.agents.desired import DesiredSet
from muster.agents.health import take_check_results, take_health_events
from muster.agents.inventory import reported
from muster.common.errors import Conflict, Invalid, NotFound
from muster.common.rows import part_of
from muster.common.secrets import digest
from muster.execution import reports
from muster.execution.port import Port
from muster.fleet.disks import note_disk
from muster.fleet.leases import greet, node_of_credential, register, renew, require_epoch
from muster.fleet.models import Node, Pool
from muster.jobs.attempt.attempts import End
from muster.jobs.attempt.claimants import Claimant
from muster.jobs.attempt.gangs import Held, Rank
from muster.jobs.fields import request_of_text
from muster.jobs.models import Allocation, Attempt, Job
from muster.logs.store import Chunk, LogEnd
from muster.monitoring.store import told_points
from muster.outputs.store import Named, finish, name_files
from nodeagent.protocol.messages import (
    MAX_CHECKS,
    MAX_OUTPUTS_AT_ONCE,
    MAX_REST_BYTES,
    MAX_TAIL_BYTES,
    PROTOCOL_VERSION,
    AllocationReport,
    BeatRequest,
    BeatResponse,
    ClaimRequest,
    EndRequest,
    HelloRequest,
    HelloResponse,
    KeptReport,
    LogFinishRequest,
    Observed,
    OutputsAnswer,
    OutputsFinishRequest,
    OutputSlot,
    OutputsRequest,
    RegisterRequest,
    RegisterResponse,
    SyncRequest,
    SyncResponse,
    Timers,
    WantedCheck,
)
from scheduler.model.lifecycle import AllocationState
from scheduler.model.lifecycle import Observed as KnownObserved
from scheduler.model.reasons import Reason

# Whose secret it is, and what storing logs and files needs to know: asked with every chunk.
_ALLOCATIONS = """
SELECT allocation.id, allocation.attempt_id, allocation.rank, allocation.claimed_at, attempt.number, attempt.job_id,
    attempt.request::text, job.pool_id, pool.log_max_bytes_per_job
FROM jobs_allocation AS allocation
JOIN fleet_node AS node ON node.id = allocation.node_id
JOIN jobs_attempt AS attempt ON attempt.id = allocation.attempt_id
JOIN jobs_job AS job ON job.id = attempt.job_id
JOIN fleet_pool AS pool ON pool.id = job.pool_id
WHERE allocation.id = ANY(%s) AND node.credential_digest = %s
"""

port: Port = reports
SYNC_WAIT_S = 25.0
MAX_STATE_ID_CHARS = 64


def greet_agent(secret: str, request: HelloRequest) -> HelloResponse:
    """The nonce that the next registration of the secret's node must carry."""
    return HelloResponse(greet(secret=secret, credential=request.credential))


def require_protocol(registration: object) -> None:
    """Return if the body of a registration is of the protocol that is served, and raise `Conflict` if not.

    What has no protocol at all is left to the strict reading.
    """
    told = registration if isinstance(registration, dict) else {}
    spoken = told.get("protocol", PROTOCOL_VERSION)
    if spoken != PROTOCOL_VERSION and isinstance(spoken, int):
        raise Conflict(
            f"this agent speaks protocol {spoken}, and this platform speaks protocol {PROTOCOL_VERSION}: "
            "install the agent of this platform"
        )


def register_agent(secret: str, request: RegisterRequest) -> RegisterResponse:
    """A new epoch for the node; what a reboot of it has ended is let go."""
    registration = register(
        secret=secret,
        credential=request.credential,
        nonce=request.nonce,
        boot_id=request.boot_id,
        state_id=_state_of(request.state_id),
        agent_version=request.agent_version,
        reported=reported(request.inventory),
    )
    node = registration.node
    _let_go_of_other_boots(node, request.boot_id)
    return RegisterResponse(
        protocol=PROTOCOL_VERSION,
        node_id=node.pk,
        node_name=node.name,
        cluster_id=settings.PUBLIC_URL,
        epoch=registration.epoch,
        timers=timers_of(node.pool),
    )


def beat(node: Node, request: BeatRequest) -> BeatResponse:
    """Renew the lease, and wait if another transaction has locked it."""
    renew(node=node, epoch=request.epoch, seq=request.seq)
    return beat_answer(node)


def beat_answer(node: Node) -> BeatResponse:
    """The answer to a beat that has renewed the lease."""
    checks = tuple(WantedCheck(number, uuid) for number, uuid in node.checks[:MAX_CHECKS])
    return BeatResponse(timers=timers_of(node.pool), checks=checks)


def brings_news(request: SyncRequest, desired: DesiredSet) -> bool:
    """Whether the agent tells more than readings: most of its reports do not."""
    started, failed = _have_started(request, desired), _have_failed(request, desired)
    return bool(request.health or request.notes or request.checks or started or failed)


def take_news(node: Node, request: SyncRequest, desired: DesiredSet) -> None:
    """Take over what the agent reports, but for its readings, which `store_samples` takes."""
    for report in _have_started(request, desired):
        port.running(Rank(node.pk, report.id, report.fence))
    for report, kept in _have_failed(request, desired):
        port.kept(
            Rank(node.pk, report.id, report.fence),
            end=End(reason=Reason(kept.reason.value), exit_code=_status_of(kept), detail=kept.detail),
            left_s=kept.left_s,
        )
    exited = [report.id for report in request.allocations if report.observed == Observed.EXITED]
    take_health_events(node, request.health, exited=exited)
    take_check_results(node, request.checks, exited=exited)
    for note in request.notes:
        port.progress(Rank(node.pk, note.id, note.fence), text=note.text)


def tells_of_disk(node: Node, request: SyncRequest) -> bool:
    """True if the agent reports other sizes of the node's disk than before; then call `take_disk`."""
    full = None if request.host is None else request.host.disk_full
    return full is not None and full != (node.disk_full_at is not None)


def take_disk(node: Node, request: SyncRequest) -> None:
    """Take over that the disk has become full, or has room again."""
    if request.host is not None and request.host.disk_full is not None:
        note_disk(node=node, full=request.host.disk_full)


def brings_samples(request: SyncRequest) -> bool:
    """Whether there is anything for `store_samples`."""
    return bool(request.gpus or request.usage or request.reported or request.host is not None)


def sync_answer(node: Node, desired: DesiredSet) -> SyncResponse:
    """The answer that carries a desired set."""
    return SyncResponse(
        generation=desired.generation,
        timers=timers_of(node.pool),
        desired=desired.allocations,
        log_pause_s=0.0,
        shells=desired.shells,
    )


def claim(node: Node, allocation_id: int, request: ClaimRequest, *, held: Held) -> Allocation:
    """The allocation, claimed for this boot and this state folder; the caller holds the epoch when it commits."""
    require_epoch(node=node, epoch=request.epoch)
    return port.claim(Rank(node.pk, allocation_id, request.fence, held), claimant=_claimant(request))


def end(node: Node, allocation_id: int, request: EndRequest, *, held: Held) -> None:
    """The end of a rank, taken over."""
    port.end(
        Rank(node.pk, allocation_id, request.fence, held),
        claimant=_claimant(request),
        end=End(
            reason=Reason(request.reason.value),
            exit_code=_status_of(request),
            detail=request.detail,
            started=request.started,
            ran_s=(request.ended_at or 0.0) - (request.started_at or request.ended_at or 0.0),
            tail=request.tail[-MAX_TAIL_BYTES:],
        ),
        points=told_points(request.points),
    )


def allocation_of(secret: str, allocation_id: int) -> Allocation:
    """The allocation of the secret's node, whatever its state: logs and files come after the end.

    Raises:
        Unauthorized: the secret is not the credential of a node.
        NotFound: the node has no such allocation.
    """
    allocation = allocations_of(digest(secret), [allocation_id]).get(allocation_id)
    if allocation is None:
        raise NotFound(f"node {node_of_credential(secret).name} has no such allocation")
    return allocation


def allocations_of(credential_digest: str, allocation_ids: Sequence[int]) -> dict[int, Allocation]:
    """Those of the allocations that are of the node with this credential, by id."""
    if not allocation_ids:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_ALLOCATIONS, [list(allocation_ids), credential_digest])
        rows = cursor.fetchall()
    found: dict[int, Allocation] = {}
    for pk, attempt_id, rank, claimed_at, number, job_id, request, pool_id, log_max_bytes in rows:
        pool = part_of(Pool, id=pool_id, log_max_bytes_per_job=log_max_bytes)
        job = part_of(Job, id=job_id, pool_id=pool_id)
        attempt = part_of(Attempt, id=attempt_id, number=number, job_id=job_id, request=request_of_text(request))
        found[pk] = part_of(Allocation, id=pk, attempt_id=attempt_id, rank=rank, claimed_at=claimed_at)
        found[pk].attempt, attempt.job, job.pool = attempt, job, pool
    return found


def require_fence(allocation: Allocation, fence: int) -> None:
    """Return if the fence is that of the allocation's attempt, and raise `Conflict` if not."""
    if allocation.attempt_id != fence:
        raise Conflict("the fence is not that of this allocation's attempt")


def log_end_of(allocation: Allocation, request: LogFinishRequest) -> LogEnd:
    """The end of the allocation's log, by its agent."""
    require_fence(allocation, request.fence)
    holes = [(start, last + 1) for start, last in request.holes]
    return LogEnd(request.size, request.sha256, holes, _rest_of(request))


def _rest_of(request: LogFinishRequest) -> Chunk | None:
    if not request.rest:
        return None
    try:
        body = b64decode(request.rest, validate=True)
    except ValueError as error:
        raise Invalid.field("rest", "write base64") from error
    if request.start < 0 or not body or len(body) > MAX_REST_BYTES:
        raise Invalid.field("rest", f"it has 1 to {MAX_REST_BYTES} bytes that begin at 0 or behind")
    return Chunk(offset=request.start, body=body, crc32=crc32(body))


def name_outputs(allocation: Allocation, request: OutputsRequest) -> OutputsAnswer:
    """Slots for the files that a rank left."""
    if len(request.files) > MAX_OUTPUTS_AT_ONCE:
        raise Invalid.field("files", f"name {MAX_OUTPUTS_AT_ONCE} at most at once")
    require_fence(allocation, request.fence)
    slots = name_files(allocation, [Named(file.path, file.size) for file in request.files])
    return OutputsAnswer(files=tuple(OutputSlot(slot.id, slot.size, slot.wanted) for slot in slots))


def finish_outputs(allocation: Allocation, request: OutputsFinishRequest) -> None:
    """The files of a rank, closed."""
    if len(request.left_out) > MAX_OUTPUTS_AT_ONCE:
        raise Invalid.field("left_out", f"name {MAX_OUTPUTS_AT_ONCE} at most, and count the others")
    require_fence(allocation, request.fence)
    finish(
        allocation,
        left_out=[Named(file.path, file.size, file.reason) for file in request.left_out],
        more=request.more,
        cut_short=request.cut_short,
    )


def require_code_of(node: Node, sha256: str) -> None:
    """Return if a job on this node needs the archive; an agent reads no other code."""
    held = Allocation.objects.filter(node=node, attempt__job__code_id=sha256).exclude(state=AllocationState.RELEASED)
    if not held.exists():
        raise NotFound("no job on this node needs such an archive")


def timers_of(pool: Pool) -> Timers:
    """The pool's timers as agents are told."""
    return Timers(
        beat_s=pool.beat_s,
        suspect_s=pool.suspect_after_s,
        unreachable_s=pool.unreachable_after_s,
        stop_after_s=pool.stop_after_s,
        sync_wait_s=SYNC_WAIT_S,
        orphan_grace_s=pool.orphan_grace_s,
        log_max_bytes_per_job=pool.log_max_bytes_per_job,
    )


def _have_started(request: SyncRequest, desired: DesiredSet) -> list[AllocationReport]:
    return [
        report
        for report in request.allocations
        if report.observed == Observed.RUNNING and desired.observed.get(report.id) == KnownObserved.STARTING
    ]


def _have_failed(request: SyncRequest, desired: DesiredSet) -> list[tuple[AllocationReport, KeptReport]]:
    """Allocations that are newly kept."""
    return [
        (report, report.kept)
        for report in request.allocations
        if report.kept is not None
        and desired.observed.get(report.id) in {KnownObserved.STARTING, KnownObserved.RUNNING}
    ]


def _claimant(request: ClaimRequest | EndRequest) -> Claimant:
    return Claimant(request.boot_id, _state_of(request.state_id))


def _status_of(told: EndRequest | KeptReport) -> int | None:
    return told.exit_code if told.signal is None else 128 + told.signal


def _state_of(state_id: str) -> str:
    if not 0 < len(state_id) <= MAX_STATE_ID_CHARS:
        raise Invalid.field("state_id", f"it has 1 to {MAX_STATE_ID_CHARS} characters")
    return state_id


def _let_go_of_other_boots(node: Node, boot_id: str) -> None:
    """A machine that has booted again runs nothing of before: that is proof enough to free the GPUs."""
    stale = (
        Allocation.objects.filter(node=node)
        .exclude(state=AllocationState.RELEASED)
        .exclude(boot_id__in=["", boot_id])
        .values_list("attempt_id", flat=True)
    )
    for attempt_id in sorted(set(stale)):
        port.lose(
            attempt_id=attempt_id,
            node_id=node.pk,
            reason=Reason.NODE_REBOOTED,
            detail=f"node {node.name} has booted again",
        )
