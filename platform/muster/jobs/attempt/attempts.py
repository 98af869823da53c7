"""The life of an attempt after it was placed: claimed, running, stopping, ended.

Every function takes its locks in the documented order: job, attempt, allocations. The lock of the attempt is what
makes a claim and a stop of the same attempt take turns.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Greatest

from muster.common.clock import utc_now
from muster.common.errors import Conflict
from muster.common.models import DatabaseNow
from muster.common.rows import first_of
from muster.events.services import record, recorded_together, wake_node
from muster.fleet.models import Node, StrikeReason
from muster.fleet.strikes import blame_for_launch, blame_for_leaving
from muster.jobs.attempt.blackholes import failed_by_node
from muster.jobs.attempt.claimants import Claimant, is_left_behind
from muster.jobs.attempt.finish import finish_if_released
from muster.jobs.attempt.gangs import Gang, Rank, locked_gang
from muster.jobs.attempt.verdicts import keep_tail
from muster.jobs.models import Allocation
from scheduler.model.lifecycle import (
    ATTEMPT_TERMINAL,
    AllocationState,
    AttemptState,
    Observed,
    Stage,
)
from scheduler.model.reasons import Reason

_ENDS_AS_IT_FAILED = frozenset({AttemptState.FAILED, AttemptState.CANCELLED, AttemptState.PREEMPTED})
_MAX_RETAINED_S = 7 * 86_400.0

_CLAIMABLE = frozenset({AttemptState.PLACED, AttemptState.STARTING, AttemptState.RUNNING})


@dataclass(frozen=True, slots=True)
class End:
    """The end of one rank, as its agent reports it; `ran_s` by the agent's clock, for a rank that ended before its
    start was reported.
    """

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
        finish_if_released(gang, tail=end.tail)
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
        finish_if_released(gang)
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
        finish_if_released(gang)
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
