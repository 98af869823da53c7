"""Finds what no agent reports: silent nodes, unclaimed attempts, and jobs past their time limit."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.db.models import Q, QuerySet

from muster.common.clock import database_now
from muster.common.statements import Statement
from muster.dispatch.eviction import Lowered, eviction_deadline
from muster.dispatch.resizes import stop_stuck_resizes
from muster.dispatch.restore_pause import resume_placement
from muster.fleet.checks import ask_due_checks
from muster.fleet.health import let_warnings_end
from muster.fleet.hold import TOGETHER, held_since
from muster.fleet.leases import answering_since, judge_nodes, tick
from muster.fleet.maintenance import keep_maintenance
from muster.fleet.models import Node, Pool
from muster.jobs.attempt.attempts import lose_allocations, stop_attempt
from muster.jobs.attempt.claimants import LEFT_BEHIND
from muster.jobs.attempt.resizes import TRIAL_S
from muster.jobs.models import Allocation, Attempt
from muster.screening.services import keep_screening
from scheduler.diagnosis.checks import UNANSWERED_AFTER_S
from scheduler.diagnosis.health import HealthLevel
from scheduler.model.lifecycle import (
    ATTEMPT_LIVE,
    AllocationState,
    AttemptState,
    JobState,
    NodeAdmin,
    NodeHealth,
    Stage,
)
from scheduler.model.reasons import Reason

log = logging.getLogger(__name__)

# The agent enforces time limits; the platform steps in only when an agent failed to.
TIME_LIMIT_SLACK_S = 60
# The pools in which any step of `reap` may find something; each condition holds at least where its step does anything.
_TO_REAP = """
SELECT pool.id FROM fleet_pool pool WHERE EXISTS (SELECT FROM events_restore WHERE resumed_at IS NULL)
OR pool.silent_since IS NOT NULL
OR EXISTS (
    SELECT FROM fleet_node node LEFT JOIN fleet_nodelease lease ON lease.node_id = node.id WHERE node.pool_id = pool.id
    AND (node.admin = 'draining' AND node.moves_jobs_off OR node.health = ANY({heard_of}) AND lease.seen_at
         < clock_timestamp() - make_interval(secs => least(pool.suspect_after_s, pool.unreachable_after_s)))
)
OR EXISTS (
    SELECT FROM jobs_allocation held JOIN fleet_node node ON node.id = held.node_id
    WHERE node.pool_id = pool.id AND held.state <> {released} AND (
        node.health = 'down' OR node.gone_at IS NOT NULL
        OR held.state_id <> '' AND held.state_id <> node.state_id)
)
OR EXISTS (
    SELECT FROM jobs_job job JOIN jobs_attempt attempt ON attempt.job_id = job.id
    WHERE job.pool_id = pool.id AND job.state = {active} AND attempt.state = ANY({live}) AND (
        attempt.unreachable_since IS NOT NULL
        OR attempt.state = ANY({unclaimed})
           AND attempt.placed_at < clock_timestamp() - make_interval(secs => pool.claim_timeout_s)
        OR attempt.state = {running} AND attempt.stage = {full} AND (
            attempt.running_at < clock_timestamp() - make_interval(secs => job.time_limit_s + job.grace_s + {slack_s})
            OR attempt.number > 1 AND job.request->'elastic' <> 'null'
               AND attempt.running_at < clock_timestamp() - make_interval(secs => {trial_s})
               AND NOT EXISTS (SELECT FROM samples_speed WHERE attempt_id = attempt.id AND since IS NOT NULL)))
)
OR EXISTS (
    SELECT FROM jobs_job WHERE pool_id = pool.id AND stage = {screening} AND state IN ('queued', 'active')
)
OR EXISTS (SELECT FROM fleet_maintenance WHERE pool_id = pool.id AND over_at IS NULL AND begins_at <= clock_timestamp())
OR EXISTS (
    SELECT FROM fleet_gpu gpu JOIN fleet_node node ON node.id = gpu.node_id
    WHERE node.pool_id = pool.id AND gpu.health = {warning}
)
OR EXISTS (
    SELECT FROM fleet_gpucheck asked JOIN fleet_gpu gpu ON gpu.id = asked.gpu_id
    JOIN fleet_node node ON node.id = gpu.node_id WHERE node.pool_id = pool.id AND (
        asked.asked_at < clock_timestamp() - make_interval(secs => {unanswered_s})
        OR asked.asked_at IS NULL AND asked.due_at <= clock_timestamp() AND pool.check_every_s > 0
           AND gpu.present AND node.health = 'ready' AND node.admin <> 'retired')
)
ORDER BY pool.id
"""


def _text(name: str) -> str:
    return f"'{name}'"


def _texts(*names: str) -> str:
    return f"'{{{','.join(names)}}}'::text[]"


_POOLS_TO_REAP = Statement(
    _TO_REAP.format(
        heard_of=_texts(NodeHealth.READY, NodeHealth.SUSPECT),
        released=_text(AllocationState.RELEASED),
        active=_text(JobState.ACTIVE),
        live=_texts(*sorted(ATTEMPT_LIVE)),
        unclaimed=_texts(AttemptState.PLACED, AttemptState.STARTING),
        running=_text(AttemptState.RUNNING),
        full=_text(Stage.FULL),
        screening=_text(Stage.SCREENING),
        slack_s=TIME_LIMIT_SLACK_S,
        trial_s=TRIAL_S,
        warning=_text(HealthLevel.WARNING),
        unanswered_s=UNANSWERED_AFTER_S,
    )
)


def pools_to_reap() -> list[int]:
    """The ids of the pools in which `reap` may find something to do."""
    return [pool_id for (pool_id,) in _POOLS_TO_REAP.rows()]


def reap(pool: Pool) -> None:
    """Check the health of the pool's nodes, and act on their attempts; return at once where there is nothing to do.

    A silent node becomes suspect, then down. Its attempts are marked unreachable and keep their GPUs until their
    eviction deadline, as do attempts whose agent has lost its state folder; what is on a node that an operator has
    force-lost is released at once. Attempts that no agent claims in time, or far past their time limit, are stopped.
    """
    tick("reaper")
    if pool.pk not in pools_to_reap():
        return
    down = judge_nodes(pool)
    _evict_from_force_lost(pool)
    since = answering_since(database_now())
    # Those that were claimed from a state folder that the agent has lost.
    orphaned = list(_held(LEFT_BEHIND, node__pool=pool))
    _mark_unreachable(pool, down, orphaned, since)
    _evict_past_deadline(pool, orphaned)
    _stop_unclaimed(pool, since)
    _stop_overdue(pool)
    stop_stuck_resizes(pool)
    keep_maintenance(pool)
    _move_jobs_off(pool)
    let_warnings_end(pool)
    keep_screening(pool)
    ask_due_checks(pool)
    resume_placement()


def _stop(attempt_id: int, reason: Reason, detail: str) -> None:
    outcome = AttemptState.PREEMPTED if reason is Reason.PREEMPTED else AttemptState.FAILED
    stop_attempt(attempt_id=attempt_id, outcome=outcome, reason=reason, detail=detail, actor="platform")


def _lose(allocation: Allocation, what: str, incident: str = "") -> None:
    lose_allocations(
        attempt_id=allocation.attempt_id,
        node_id=allocation.node_id,
        reason=Reason.NODE_LOST,
        detail=f"node {allocation.node.name} {what}",
        incident=incident,
        actor="platform",
    )


def _held(*conditions: Q, **columns: object) -> QuerySet[Allocation]:
    """The allocations that are not released, with their nodes, those of each attempt together."""
    found = Allocation.objects.filter(*conditions, **columns).exclude(state=AllocationState.RELEASED)
    return found.select_related("node").order_by("attempt_id", "pk")


def _evict_from_force_lost(pool: Pool) -> None:
    """Release everything on nodes that an operator has force-lost: nothing new came, as they stay cordoned."""
    for allocation in _held(node__pool=pool, node__gone_at__isnull=False):
        _lose(allocation, f"was declared gone by {allocation.node.gone_why}")


def _mark_unreachable(pool: Pool, down: list[Node], orphaned: list[Allocation], since: datetime) -> None:
    """Set and clear `unreachable_since` and the eviction deadline.

    The deadline counts from the last time that the node was heard, or from the start of the platform if that is later.
    The agent counts from the last request that it knows was answered, so it always stops first. The leases of attempts
    whose state folder is lost are not renewed once another agent has registered.
    """
    live = Attempt.objects.filter(job__pool=pool, state__in=ATTEMPT_LIVE)
    alone = {one.pk for one in orphaned}
    for node in down:
        held = Allocation.objects.filter(node=node).exclude(state=AllocationState.RELEASED).exclude(pk__in=alone)
        for attempt in live.filter(pk__in=held.values("attempt_id")).select_related("job"):
            heard_at = node.lease.seen_at
            _set_deadline(pool, attempt, heard_at=heard_at, away_since=max(heard_at, since))
    for allocation in orphaned:
        for attempt in live.filter(pk=allocation.attempt_id).select_related("job"):
            heard_at = allocation.node.state_since or since
            _set_deadline(pool, attempt, heard_at=heard_at, away_since=heard_at)
    reachable = live.filter(unreachable_since__isnull=False).exclude(
        pk__in=Allocation.objects.filter(Q(node__health=NodeHealth.DOWN) | Q(pk__in=alone))
        .exclude(state=AllocationState.RELEASED)
        .values("attempt_id")
    )
    reachable.update(unreachable_since=None, fence_at=None)


def _set_deadline(pool: Pool, attempt: Attempt, *, heard_at: datetime, away_since: datetime) -> None:
    this = Attempt.objects.filter(pk=attempt.pk, state__in=ATTEMPT_LIVE)
    if attempt.fence_at is None:
        deadline = _deadline_of(pool, attempt, heard_at, away_since)
        this.update(unreachable_since=away_since, fence_at=deadline)
    elif attempt.fence_at < (deadline := _deadline_of(pool, attempt, heard_at, heard_at)):
        # Another node of the gang became silent after the first, so its agent also stops its rank later.
        this.update(fence_at=deadline)


def _deadline_of(pool: Pool, attempt: Attempt, heard_at: datetime, away_since: datetime) -> datetime:
    """The eviction deadline of an attempt on a node last heard at `heard_at`.

    The agent uses the grace period of the launch, and the longer of the leases told at the launch and told last.
    """
    lowered = Lowered(pool.lowered_from_s, pool.lowered_at) if pool.lowered_from_s and pool.lowered_at else None
    return eviction_deadline(
        heard_at=heard_at,
        away_since=away_since,
        stop_after_s=max(attempt.stop_after_s, pool.stop_after_s),
        grace_s=attempt.job.grace_s,
        margin_s=pool.fence_margin_s,
        lowered=lowered,
    )


def _evict_past_deadline(pool: Pool, orphaned: list[Allocation]) -> None:
    """Release what is on nodes that were silent until the eviction deadline, and what lost its state folder by then.

    With `on_disconnect: keep` attempts wait, and all on silent nodes do while more than half of the pool is silent.
    """
    alone = {one.pk for one in orphaned}
    held = _held(
        Q(node__health=NodeHealth.DOWN) | Q(pk__in=alone),
        node__pool=pool,
        attempt__state__in=ATTEMPT_LIVE,
        attempt__fence_at__lt=database_now(),
    ).exclude(attempt__stage=Stage.FULL, attempt__job__spec__on_disconnect="keep", claimed_at__isnull=False)
    since = held_since(pool)
    if since is not None:
        held = held.exclude(node__health=NodeHealth.DOWN, node__down_at__gte=since - TOGETHER)
    for allocation in held:
        what, incident = "was silent until its eviction deadline", ""
        if allocation.pk in alone:
            what = "lost the state folder of its agent, and its eviction deadline has passed"
            incident = f"state folder since {allocation.node.state_since}"
        _lose(allocation, what, incident)


def _stop_unclaimed(pool: Pool, since: datetime) -> None:
    """Stop attempts with a rank that was not claimed in time; a late claim finds the attempt stopping."""
    limit = database_now() - timedelta(seconds=pool.claim_timeout_s)
    if since > limit:
        return  # no agent could claim anything during that time
    overdue = Attempt.objects.filter(
        Q(state=AttemptState.PLACED) | Q(state=AttemptState.STARTING),
        job__pool=pool,
        placed_at__lt=limit,
        allocations__state=AllocationState.RESERVED,
    )
    for attempt_id in overdue.distinct().order_by("pk").values_list("pk", flat=True):
        nodes = Node.objects.filter(
            allocations__attempt_id=attempt_id, allocations__state=AllocationState.RESERVED
        ).values_list("name", flat=True)
        _stop(attempt_id, Reason.NOT_CLAIMED, f"not claimed within {pool.claim_timeout_s:g}s by {', '.join(nodes)}")


def _move_jobs_off(pool: Pool) -> None:
    """Stop preemptible jobs on nodes that jobs are moved off; each is queued again with its attained service."""
    held = _held(
        node__pool=pool,
        node__admin=NodeAdmin.DRAINING,
        node__moves_jobs_off=True,
        attempt__state__in=ATTEMPT_LIVE,
        attempt__job__preemptible=True,
    ).exclude(attempt__state=AttemptState.STOPPING)
    for attempt_id, node, reason in held.values_list("attempt_id", "node__name", "node__reason"):
        _stop(attempt_id, Reason.PREEMPTED, f"jobs are moved off node {node}: {reason}")


def _stop_overdue(pool: Pool) -> None:
    running = Attempt.objects.filter(
        job__pool=pool,
        state=AttemptState.RUNNING,
        stage=Stage.FULL,
        job__time_limit_s__isnull=False,
        unreachable_since__isnull=True,
    ).select_related("job")
    now = database_now()
    for attempt in running:
        ran_s = (now - (attempt.running_at or now)).total_seconds()
        limit_s = attempt.job.time_limit_s or 0
        # Its agent signals it at the limit and kills it after its grace period.
        if ran_s > limit_s + attempt.job.grace_s + TIME_LIMIT_SLACK_S:
            _stop(attempt.pk, Reason.TIME_LIMIT, f"it ran past its limit of {limit_s:g}s")
