"""The life of an attempt after it was placed: claimed, running, stopping, ended.

Every function takes its locks in the documented order: job, attempt, allocations. The lock of the attempt is what
makes a claim and a stop of the same attempt take turns.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Greatest

from muster.common.clock import utc_now
from muster.common.errors import Conflict
from muster.common.models import DatabaseNow
from muster.common.rows import first_of
from muster.events.services import record, recorded_together, wake_group, wake_node, wake_pool
from muster.fleet.checks import check_soon
from muster.fleet.models import Gpu, Node, StrikeReason
from muster.fleet.strikes import blame_for_failure, blame_for_launch, blame_for_leaving, nodes_of_failed_gpus
from muster.jobs.attempt.blackholes import failed_by_node
from muster.jobs.attempt.claimants import Claimant, is_left_behind
from muster.jobs.attempt.estimates import learn_from
from muster.jobs.attempt.gangs import Gang, Rank, locked_gang
from muster.jobs.attempt.outcome import Outcome, derive_job_state, is_told_of_node, retry_fields
from muster.jobs.attempt.resizes import FailedResize, resize_that_failed
from muster.jobs.attempt.screener import ScreeningEnd, screener
from muster.jobs.attempt.verdicts import failed_so_before, keep_tail, stored, verdict_on
from muster.jobs.models import Allocation, ExcludedNode, Job
from muster.jobs.spec.spec import Retry
from scheduler.diagnosis.failures import Verdict
from scheduler.model.lifecycle import (
    ATTEMPT_TERMINAL,
    AllocationState,
    AttemptState,
    Desired,
    JobState,
    Observed,
    Stage,
)
from scheduler.model.reasons import Reason

_ENDS_AS_IT_FAILED = frozenset({AttemptState.FAILED, AttemptState.CANCELLED, AttemptState.PREEMPTED})
_MAX_RETAINED_S = 7 * 86_400.0

_CLAIMABLE = frozenset({AttemptState.PLACED, AttemptState.STARTING, AttemptState.RUNNING})


@dataclass(frozen=True, slots=True)
class End:
    """How one rank ended, as its agent tells it; `ran_s` by the agent's clock, for a rank that ended before its start
    was reported."""

    reason: Reason
    exit_code: int | None
    detail: str = ""
    started: bool = True
    ran_s: float = 0.0
    tail: str = ""
    """The end of what it printed, if it failed."""


def claim_allocation(rank: Rank, *, claimant: Claimant) -> Allocation:
    """The allocation, now held by the claimant.

    The same claimant may ask again; any other is refused, before anything is written.
    """
    with transaction.atomic(savepoint=rank.held is None), recorded_together():
        gang, allocation = rank.locked()
        if gang.attempt.state not in _CLAIMABLE:
            raise Conflict(f"the attempt is {gang.attempt.state} and must not start any more")
        if allocation.state == AllocationState.ACTIVE and allocation.boot_id == claimant.boot_id:
            _require_same_folder(allocation, claimant)
            return allocation
        if allocation.state != AllocationState.RESERVED:
            raise Conflict(f"the allocation is {allocation.state} and held by another boot of the node")
        gang.moves.move_allocation(
            allocation,
            AllocationState.ACTIVE,
            boot_id=claimant.boot_id,
            state_id=claimant.state_id,
            claimed_at=DatabaseNow(),
            observed=Observed.STARTING,
        )
        if gang.attempt.state == AttemptState.PLACED:
            gang.moves.move_attempt(gang.attempt, AttemptState.STARTING, job=gang.job, actor="agent")
        gang.moves.write()
        return allocation


def report_running(rank: Rank) -> None:
    """Note that the rank's processes run; the attempt runs once every rank does."""
    with transaction.atomic(), recorded_together():
        gang, allocation = rank.locked()
        if allocation.state != AllocationState.ACTIVE or allocation.observed != Observed.STARTING:
            return
        _set_observed(gang, allocation, Observed.RUNNING)
        _run_if_all_started(gang)
        gang.moves.write()


def report_kept(rank: Rank, *, end: End, left_s: float) -> None:
    """Note that the rank's command has failed, and that what it ran in is kept for a time; its end follows.

    The others of a gang are left as they are: what waits for the failed one can be looked at, too. Of several ranks the
    first that failed says how long the attempt is kept, and how it has failed.
    """
    with transaction.atomic(), recorded_together():
        gang, allocation = rank.locked()
        if allocation.state != AllocationState.ACTIVE or allocation.observed == Observed.KEPT:
            return
        how = {"exit_code": end.exit_code, "end_reason": end.reason, "end_detail": end.detail[:500]}
        _set_observed(gang, allocation, Observed.KEPT, failed_at=DatabaseNow(), **how)
        _run_if_all_started(gang)
        until = utc_now() + timedelta(seconds=min(max(left_s, 0.0), _MAX_RETAINED_S))
        attempt = gang.attempt
        if attempt.kept_until is None and attempt.state in {AttemptState.STARTING, AttemptState.RUNNING}:
            which = f"rank {allocation.rank}: " if len(gang.allocations) > 1 else ""
            attempt.kept_until, attempt.reason = until, end.reason
            attempt.reason_detail, attempt.exit_code = f"{which}{end.detail}"[:500], end.exit_code
            kept = ("kept_until", "reason", "reason_detail", "exit_code")
            gang.moves.change(attempt, **{name: getattr(attempt, name) for name in kept})
            gang.moves.write()
            # Now, and not when what is kept is over: meanwhile others would fail there.
            failed_s = (utc_now() - attempt.placed_at).total_seconds()
            failed_by_node([rank.node_id], reason=end.reason, failed_s=failed_s)
        gang.moves.write()
        node = Node.objects.only("name").get(pk=rank.node_id).name
        told = {"reason": end.reason, "exit_code": end.exit_code, "detail": end.detail[:500]}
        record(
            "attempt.kept",
            actor=f"agent of {node}",
            tenant_id=gang.job.tenant_id,
            job_id=gang.job.pk,
            data={
                "attempt": attempt.number,
                "rank": allocation.rank,
                "ranks": len(gang.allocations),
                "node": node,
                "until": until.isoformat(timespec="seconds").replace("+00:00", "Z"),
                **told,
            },
        )


def note_progress(rank: Rank, *, text: str) -> None:
    """Write down how far the start of a rank is, for people; a note of one that was let go is late and dropped."""
    found = Allocation.objects.filter(pk=rank.allocation_id, node_id=rank.node_id, attempt_id=rank.fence)
    allocation = first_of(
        found.exclude(state=AllocationState.RELEASED)
        .select_related("attempt__job", "node")
        .only("rank", "node__name", "attempt__number", "attempt__job__tenant_id")
    )
    if allocation is None:
        return
    attempt, node = allocation.attempt, allocation.node.name
    record(
        "attempt.progress",
        actor=f"agent of {node}",
        tenant_id=attempt.job.tenant_id,
        job_id=attempt.job_id,
        data={"attempt": attempt.number, "rank": allocation.rank, "node": node, "text": text[:300]},
    )


def end_allocation(rank: Rank, *, claimant: Claimant, end: End) -> None:
    """Take the claimant's word that no process of the rank is left: free its GPUs and draw the consequences.

    What is refused is refused before anything is written.

    1. The same end told twice changes nothing.
    2. The allocation is released with the rank's exit status.
    3. The first rank that failed stops the others; the attempt has its reason, and says which rank it was.
    4. When all ranks are released, the attempt ends.
    """
    with transaction.atomic(savepoint=rank.held is None), recorded_together():
        gang, allocation = rank.locked()
        if allocation.state == AllocationState.RELEASED:
            return
        if allocation.boot_id not in {"", claimant.boot_id}:
            raise Conflict("the allocation is held by another boot of the node")
        _require_same_folder(allocation, claimant)
        if allocation.state == AllocationState.RESERVED and (end.started or end.reason is Reason.COMPLETED):
            raise Conflict("the allocation was never claimed, so nothing of it can have run")
        if end.started and allocation.observed == Observed.STARTING:
            allocation.observed = Observed.EXITED
            _run_if_all_started(gang, ago_s=max(end.ran_s, 0.0))
        gang.moves.move_allocation(
            allocation,
            AllocationState.RELEASED,
            observed=Observed.EXITED,
            exit_code=end.exit_code,
            end_reason=end.reason,
            end_detail=end.detail[:500],
            ended_at=DatabaseNow(),
        )
        allocation.exit_code, allocation.end_reason, allocation.ended_at = end.exit_code, end.reason, utc_now()
        keep_tail(allocation, end.tail, of_gang=len(gang.allocations) > 1)
        if end.reason is not Reason.COMPLETED and gang.attempt.state != AttemptState.STOPPING:
            which = f"rank {allocation.rank}: " if len(gang.allocations) > 1 else ""
            detail = f"{which}{end.detail}".removesuffix(": ")
            outcome, reason = AttemptState.FAILED, end.reason
            if gang.attempt.stage == Stage.SCREENING and reason is Reason.TIME_LIMIT:
                # The agent was the first to see that the time of the screening run is up.
                outcome, reason = AttemptState.CANCELLED, Reason.SCREENING_PASSED
            _begin_stop(gang, outcome, reason, detail, exit_code=end.exit_code, actor="agent")
            _blame_for_launch(gang, [rank.node_id], end.reason, end.detail)
        _finish_if_released(gang, tail=end.tail)
        gang.moves.write()


def stop_attempt(
    *, attempt_id: int, outcome: AttemptState, reason: Reason, detail: str = "", actor: str
) -> AttemptState | None:
    """Stop a live attempt so that it ends as `outcome`; returns its state now, None if it was over or stopping."""
    with transaction.atomic(), recorded_together():
        gang = locked_gang(attempt_id)
        if gang.attempt.state in ATTEMPT_TERMINAL or gang.attempt.state == AttemptState.STOPPING:
            return None
        late = [one.node_id for one in gang.allocations if one.state == AllocationState.RESERVED]
        _begin_stop(gang, outcome, reason, detail, exit_code=None, actor=actor)
        _blame_for_launch(gang, late, reason, detail)
        _finish_if_released(gang)
        gang.moves.write()
        return AttemptState(gang.attempt.state)


def lose_allocations(
    *, attempt_id: int, node_id: int, reason: Reason, detail: str, incident: str = "", blame: bool = True, actor: str
) -> bool:
    """Release what the attempt holds on a node whose processes are known to be gone; the attempt ends as lost.

    The caller has proof, a fence that has passed or a new boot of the node, or an operator's word. False if nothing was
    held there. For what happened to the node by `incident` it is blamed once; without `blame` the next attempt may run
    on the same node.
    """
    with transaction.atomic(), recorded_together():
        gang = locked_gang(attempt_id)
        held = [
            allocation
            for allocation in gang.allocations
            if allocation.node_id == node_id and allocation.state != AllocationState.RELEASED
        ]
        if not held:
            return False
        for allocation in held:
            gang.moves.move_allocation(
                allocation,
                AllocationState.RELEASED,
                observed=Observed.EXITED,
                end_reason=reason,
                end_detail=detail[:500],
            )
            if blame:
                allocation.end_reason = reason
        if blame and reason.meaning.is_departure:
            blame_for_leaving(
                node_id=node_id,
                reason=StrikeReason(reason.value),
                job_id=gang.job.pk,
                attempt_id=attempt_id,
                detail=detail,
                incident=incident,
            )
        if gang.attempt.state not in ATTEMPT_TERMINAL and gang.attempt.state != AttemptState.STOPPING:
            _begin_stop(gang, AttemptState.LOST, reason, detail, exit_code=None, actor=actor)
        _finish_if_released(gang)
        gang.moves.write()
        return True


def _require_same_folder(allocation: Allocation, claimant: Claimant) -> None:
    if is_left_behind(allocation.state_id, claimant.state_id):
        raise Conflict("the allocation was claimed out of another state folder of the node's agent")


def _set_observed(gang: Gang, allocation: Allocation, observed: Observed, **fields: object) -> None:
    gang.moves.change(allocation, observed=observed, **fields)
    allocation.observed = observed


def _run_if_all_started(gang: Gang, *, ago_s: float = 0.0) -> None:
    """Let the attempt run once every rank does, or did; `ago_s` ago, but not before the first rank was claimed."""
    begun = {Observed.RUNNING, Observed.KEPT, Observed.EXITED}
    started = all(one.observed in begun for one in gang.allocations)
    if started and gang.attempt.state == AttemptState.STARTING:
        since = Greatest(DatabaseNow() - timedelta(seconds=ago_s), F("starting_at"))
        gang.moves.move_attempt(gang.attempt, AttemptState.RUNNING, job=gang.job, actor="agent", running_at=since)
        if gang.job.started_at is None and gang.attempt.stage == Stage.FULL:
            gang.moves.change(gang.job, started_at=DatabaseNow() - timedelta(seconds=ago_s))


def _begin_stop(
    gang: Gang, outcome: AttemptState, reason: Reason, detail: str, *, exit_code: int | None, actor: str
) -> None:
    """Move to stopping: allocations that no agent has claimed are released at once, and the agents of the rest are
    told.

    A failed attempt that is kept ends as failed, whatever stops it: there is nothing left to save.
    """
    if gang.attempt.kept_until is not None and outcome in _ENDS_AS_IT_FAILED and reason is not Reason.REQUEUED_BY_USER:
        outcome, reason = AttemptState.FAILED, Reason(gang.attempt.reason)
        detail, exit_code = gang.attempt.reason_detail, gang.attempt.exit_code
    data = {"outcome": outcome, "reason": reason, "detail": detail[:500]}
    gang.moves.move_attempt(
        gang.attempt,
        AttemptState.STOPPING,
        job=gang.job,
        actor=actor,
        data=data,
        outcome=outcome,
        reason=reason,
        reason_detail=detail[:500],
        exit_code=exit_code,
    )
    for allocation in gang.allocations:
        if allocation.state == AllocationState.RESERVED:
            end_reason = reason if reason is Reason.NOT_CLAIMED else ""
            gang.moves.move_allocation(allocation, AllocationState.RELEASED, end_reason=end_reason)
            allocation.end_reason = end_reason
        elif allocation.state == AllocationState.ACTIVE:
            gang.moves.move_allocation(allocation, AllocationState.RELEASING)
            wake_node(allocation.node_id)


def _blame_for_launch(gang: Gang, node_ids: list[int], reason: Reason, detail: str) -> None:
    if reason.meaning.strikes:
        blame_for_launch(
            node_ids=node_ids,
            reason=StrikeReason(reason.value),
            job_id=gang.job.pk,
            attempt_id=gang.attempt.pk,
            detail=detail,
        )


def _finish_if_released(gang: Gang, *, tail: str = "") -> None:
    """End the attempt once nothing of it is held, and move its job on; `tail` is that of the rank that ended last."""
    if not gang.all_released or gang.attempt.state in ATTEMPT_TERMINAL:
        return
    job, attempt, moves = gang.job, gang.attempt, gang.moves
    verdict = None
    if attempt.state == AttemptState.STOPPING:
        target, reason = AttemptState(attempt.outcome), Reason(attempt.reason)
        verdict = verdict_on(attempt, gang.allocations, ended_as=target, reason=reason, last_tail=tail)
        failure = None if verdict is None else stored(verdict)
        told = {"reason": reason} | ({"failure": failure["class"]} if failure else {})
        moves.move_attempt(attempt, target, job=job, actor="platform", data=told, failure=failure)
        moves.write()  # what becomes of the job depends on what else has failed on its nodes
    else:
        target, reason = AttemptState.SUCCEEDED, Reason.COMPLETED
        if attempt.state == AttemptState.STARTING:
            moves.move_attempt(attempt, AttemptState.RUNNING, job=job, actor="agent")
        moves.move_attempt(attempt, target, job=job, actor="platform", reason=reason, exit_code=0)
        if attempt.stage == Stage.SCREENING:
            moves.write()  # the screener moves the job
    _move_job_on(gang, target, reason, verdict)


def _move_job_on(gang: Gang, ended_as: AttemptState, reason: Reason, verdict: Verdict | None) -> None:
    job, attempt, now = gang.job, gang.attempt, utc_now()
    # The other ranks were stopped because of it: their own ends say nothing against their nodes.
    to_blame = [one for one in gang.allocations if one.end_reason == reason]
    blamed = sorted({one.node_id for one in to_blame})
    # What a failed rank ran in may be kept for a while: that says nothing of how quickly it failed.
    failed_s = (min((one.failed_at or now for one in to_blame), default=now) - attempt.placed_at).total_seconds()
    if reason is Reason.GPU_FAILED:
        blamed = nodes_of_failed_gpus(attempt.pk)
    held_s = (now - attempt.placed_at).total_seconds()
    if attempt.stage == Stage.SCREENING:
        if job.desired == Desired.RUN:
            _blame_for_failure(gang, blamed, reason, verdict)
        screener().ended(ScreeningEnd(job, attempt, ended_as, reason, verdict, blamed, held_s))
        return
    outcome = derive_job_state(
        ended_as=ended_as,
        reason=reason,
        desired=Desired(job.desired),
        retry=Retry.model_validate(job.spec["retry"]),
        retries_used=job.retries_used,
        by_node=ended_as is AttemptState.FAILED and failed_by_node(blamed, reason=reason, failed_s=failed_s),
        verdict=verdict,
        failed_so_before=failed_so_before(attempt, verdict, reason),
        chance=random.random(),  # noqa: S311 (it spreads pauses, and is no secret)
    )
    resize = resize_that_failed(job, attempt, ended_as=ended_as, reason=reason, verdict=verdict)
    if resize is not None:
        outcome = Outcome(JobState.QUEUED, avoid_nodes=outcome.avoid_nodes)
    if outcome.state is JobState.CANCELLED:
        reason = reason if reason is Reason.STOPPED_EARLY else Reason.CANCELLED_BY_USER
    else:
        _blame_for_failure(gang, blamed, reason, verdict)
    fields: dict[str, object] = {
        "attained_gpu_s": job.attained_gpu_s + attempt.gpus_total * max(held_s, 0.0),
        "ran_s": job.ran_s + max(held_s, 0.0),
        "exit_code": attempt.exit_code,
        "reason": reason,
        "reason_detail": attempt.reason_detail,
        "failure": attempt.failure,
        "failed_resize": job.failed_resize if resize is None else resize.stored(),
    }
    if outcome.state is JobState.QUEUED:
        fields["requeued_at"] = DatabaseNow()
        fields["eligible_at"] = DatabaseNow() + timedelta(seconds=outcome.back_off_s)
        fields |= retry_fields(outcome, retries_used=job.retries_used, attempt=attempt.number)
        if outcome.avoid_nodes:
            excluded = ExcludedNode.objects.filter(job=job).values_list("node_id", flat=True)
            fields["avoid_nodes"] = sorted({*blamed, *excluded})
    told = {"reason": reason, "attempt": attempt.number, "exit_code": attempt.exit_code}
    if verdict is not None:
        told["failure"] = verdict.failure
    gang.moves.move_job(job, outcome.state, actor="platform", data=told, **fields)
    _record_resize(job, resize)
    if outcome.state is not JobState.QUEUED:
        learn_from(job)
        if job.group_id is not None:
            wake_group(job.group_id)
    if outcome.avoid_nodes:
        # Last: the code that takes the results of checks locks the node first.
        on_blamed = Gpu.objects.filter(claims__allocation__attempt=attempt, node__in=blamed)
        check_soon(set(on_blamed.values_list("pk", flat=True)))
    wake_pool(job.pool_id)


def _record_resize(job: Job, resize: FailedResize | None) -> None:
    if resize is not None:
        data = {"before": resize.before, "wanted": resize.wanted, "because": resize.because}
        record("job.resize_failed", actor="platform", tenant_id=job.tenant_id, job_id=job.pk, data=data)


def _blame_for_failure(gang: Gang, blamed: list[int], reason: Reason, verdict: Verdict | None) -> None:
    if verdict is not None and is_told_of_node(verdict, reason):
        blame_for_failure(
            node_ids=blamed,
            failure=verdict.failure,
            owner_id=gang.job.owner_id,
            job_id=gang.job.pk,
            attempt_id=gang.attempt.pk,
            detail=f"{verdict.failure}: {verdict.line}",
        )
