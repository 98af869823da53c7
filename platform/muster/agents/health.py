"""Health reports of agents about their GPUs, and their effect on the jobs that have these GPUs."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import islice

from django.db import transaction

from muster.fleet.checks import Told, take_results
from muster.fleet.health import take_report
from muster.fleet.models import CheckResult as KnownResult
from muster.fleet.models import Gpu, Node, StrikeReason
from muster.fleet.strikes import blame_gpu
from muster.jobs.attempt.attempts import stop_attempt
from muster.jobs.models import GpuClaim
from nodeagent.protocol.messages import MAX_CHECKS, MAX_HEALTH_EVENTS, CheckResult, HealthEvent
from scheduler.diagnosis.health import Kind, Meaning
from scheduler.model.lifecycle import AttemptState
from scheduler.model.reasons import Reason

_BEGINNING = (AttemptState.PLACED, AttemptState.STARTING)
_OFF_THE_BUS = frozenset({79})
_MEMORY = frozenset({48, 64, 95, 140})
_MEMORY_KINDS = frozenset({Kind.ECC, Kind.ROW_REMAP_FAILED})


def take_health_events(node: Node, events: Iterable[HealthEvent], *, exited: Collection[int] = ()) -> None:
    """Store an agent's health events, and move the jobs that hold a failed GPU elsewhere.

    `exited` are the allocations that the same message reports as over: their ends are on their way.

    The GPU is taken out of service in a transaction of its own, before its holders are read: a job that was placed
    there meanwhile is then seen. If the platform stops in between, the agent gets no answer and sends the event again.
    """
    for event in islice(events, MAX_HEALTH_EVENTS):
        gpu = Gpu.objects.filter(node=node, uuid=event.gpu_uuid).first() if event.gpu_uuid else None
        # Of a GPU that the node does not have, it is kept that the agent spoke of it.
        meaning = take_report(
            node=node, gpu=gpu, kind=event.kind, uuid=event.gpu_uuid, xid=event.xid, detail=event.detail
        )
        if gpu is not None:
            _take_from_jobs(node, gpu, event, meaning, exited)


def take_check_results(node: Node, results: Iterable[CheckResult], *, exited: Collection[int] = ()) -> None:
    """Take over what came of checks; a GPU that failed its own is as one of which that was reported."""
    told = [
        Told(
            number=one.number,
            uuid=one.gpu_uuid,
            result=KnownResult(one.outcome.value),
            how=one.how,
            detail=one.detail,
            duration_s=one.duration_s,
            tflops=one.tflops,
            gb_s=one.gb_s,
        )
        for one in islice(results, MAX_CHECKS)
    ]
    failed = take_results(node=node, told=told)
    events = [HealthEvent(Kind.CHECK_FAILED.value, uuid, detail) for uuid, detail in failed]
    take_health_events(node, events, exited=exited)


def _take_from_jobs(node: Node, gpu: Gpu, event: HealthEvent, meaning: Meaning, exited: Collection[int]) -> None:
    """Blame the GPU for what it did under its jobs; if it has failed, stop them, so that they are tried elsewhere."""
    if event.kind == Kind.CHECK_FAILED:
        _take_from_beginners(node, gpu, meaning, exited)
        return
    if not meaning.requeues and event.kind != Kind.ECC:
        return
    claims = GpuClaim.objects.filter(gpu=gpu, released_at__isnull=True)
    held = claims.values_list("allocation__attempt__job_id", "allocation__attempt_id").distinct()
    for job_id, attempt_id in sorted(held):
        with transaction.atomic():
            # What is blamed for an attempt is what its job avoids next, so it must be there when the attempt ends.
            blame_gpu(
                node_id=node.pk,
                gpu_id=gpu.pk,
                reason=_strike_for(event),
                job_id=job_id,
                attempt_id=attempt_id,
                detail=event.detail,
            )
            if meaning.requeues:
                stop_attempt(
                    attempt_id=attempt_id,
                    outcome=AttemptState.FAILED,
                    reason=Reason.GPU_FAILED,
                    detail=f"GPU {gpu.index} of node {node.name}: {meaning.words}",
                    actor="platform",
                )


def _take_from_beginners(node: Node, gpu: Gpu, meaning: Meaning, exited: Collection[int]) -> None:
    """Stop jobs that are about to start there, without blame, as no work is lost. Running jobs go on.

    Exited allocations keep their own end: the agent reports a GPU that is not free after an end before that end.
    """
    claims = GpuClaim.objects.filter(gpu=gpu, released_at__isnull=True, allocation__attempt__state__in=_BEGINNING)
    claims = claims.exclude(allocation__in=exited)
    for attempt_id in sorted(set(claims.values_list("allocation__attempt_id", flat=True))):
        stop_attempt(
            attempt_id=attempt_id,
            outcome=AttemptState.FAILED,
            reason=Reason.GPU_CHECK_FAILED,
            detail=f"GPU {gpu.index} of node {node.name}: {meaning.words}",
            actor="platform",
        )


def _strike_for(event: HealthEvent) -> StrikeReason:
    """Reports of one incident by several means count as one strike."""
    xid = event.xid if event.kind == Kind.XID else None
    if event.kind == Kind.GPU_LOST or xid in _OFF_THE_BUS:
        return StrikeReason.GPU_LOST
    if event.kind in _MEMORY_KINDS or xid in _MEMORY:
        return StrikeReason.GPU_ECC
    return StrikeReason.GPU_FAILED
