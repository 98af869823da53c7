"""Cordoning a node that fails whatever comes to it. How one is told from bad jobs: `scheduler.diagnosis.blackholes`."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from datetime import datetime, timedelta

from django.db.models import Case, Q, QuerySet, When

from muster.common.clock import database_now
from muster.common.models import DatabaseNow
from muster.events.services import mail_operators, record
from muster.fleet.checks import check_soon
from muster.fleet.models import Node
from muster.fleet.services import cordon_node
from muster.jobs.models import Allocation
from scheduler.diagnosis.blackholes import Judgement, NodeRun, Opinion, judge
from scheduler.model.lifecycle import AllocationState, AttemptState, NodeAdmin, Stage
from scheduler.model.reasons import Reason, reasons_where

_FAILURES = reasons_where(lambda meaning: meaning.black_hole)
# Older runs say nothing of the node's present state, and this many runs elsewhere are enough to compare with.
_WINDOW = timedelta(hours=1)
_RUNS_HERE, _RUNS_ELSEWHERE = 20, 200


def failed_by_node(node_ids: Collection[int], *, reason: Reason, failed_s: float) -> bool:
    """Whether a job that failed for that reason, so long after it was placed, had better be tried on other nodes.

    So it is if one of them fails whatever comes to it, or may do so for all that is known; once it is known the node is
    cordoned. Called in the transaction that ends the attempt, before it is said what becomes of the job. The locks of
    the nodes let jobs that fail at once take turns: each sees those before it, so that however many lay there no more
    are lost than it takes to become suspicious.
    """
    if not reason.meaning.black_hole:
        return False
    nodes = Node.objects.filter(pk__in=node_ids, pool__black_hole_jobs__gt=0, pool__black_hole_s__gte=failed_s)
    opinions = [
        Opinion.BLACK_HOLE if node.black_hole_at is not None else _opinion_of(node)
        for node in nodes.select_for_update(no_key=True, of=("self",)).select_related("pool").order_by("pk")
    ]
    return any(opinion is not Opinion.SOUND for opinion in opinions)


def _opinion_of(node: Node) -> Opinion:
    now = database_now()
    here = Allocation.objects.filter(node=node, attempt__placed_at__gte=node.resumed_at or node.created_at)
    elsewhere = Allocation.objects.filter(node__pool=node.pool).exclude(node=node)
    judgement = judge(
        _node_runs(here, now, _RUNS_HERE),
        _node_runs(elsewhere, now, _RUNS_ELSEWHERE),
        in_a_row=node.pool.black_hole_jobs,
        quick_s=node.pool.black_hole_s,
    )
    # A full disk bars the node already, and goes without an operator.
    if judgement.opinion is Opinion.BLACK_HOLE and node.admin == NodeAdmin.ACTIVE and node.disk_full_at is None:
        _cordon(node, judgement)
    return judgement.opinion


def _node_runs(allocations: QuerySet[Allocation], now: datetime, limit: int) -> Iterator[NodeRun]:
    """The runs of those that are there or were of late, the newest first."""
    of_late = Q(released_at__isnull=True) | Q(released_at__gte=now - _WINDOW)
    rows = (
        allocations.filter(of_late, claimed_at__isnull=False)
        # Jobs are screened so that those that cannot run fail there: that says nothing against the node.
        .annotate(caught=Case(When(attempt__stage=Stage.SCREENING, attempt__failure__category="user", then=True)))
        .filter(caught__isnull=True)
        .order_by("-pk")
        .values_list(
            "attempt__job_id",
            "attempt__job__owner_id",
            "attempt__job__code_id",
            "attempt__job__spec__command",
            "attempt__job__spec__image",
            "state",
            "attempt__state",
            "attempt__reason",
            "end_reason",
            "attempt__running_at",
            "claimed_at",
            "failed_at",
            "released_at",
        )[:limit]
    )
    for job, owner, code, command, image, state, attempt, why, end_reason, running, claimed, failed, released in rows:
        # Of a gang, the ranks that were stopped for another's failure say nothing against their nodes. One that failed
        # may be kept: it has failed all the same, and runs no longer.
        is_over = state == AllocationState.RELEASED or failed is not None
        until = failed or released or now
        yield NodeRun(
            job=job,
            kind=hashlib.sha256(repr((owner, code, command, image)).encode()).hexdigest(),
            ran_s=max((until - (running or claimed or now)).total_seconds(), 0.0),
            failed=is_over and why == end_reason and why in _FAILURES,
            succeeded=attempt == AttemptState.SUCCEEDED or why == Reason.SCREENING_PASSED,
        )


def _cordon(node: Node, found: Judgement) -> None:
    known = found.well_elsewhere + found.quick_elsewhere
    reason = (
        f"{len(found.jobs)} jobs in a row failed here within {node.pool.black_hole_s:g} s; "
        f"the same commands did well in {found.well_elsewhere} of {known} cases elsewhere"
    )
    cordon_node(node=node, reason=reason, actor="platform")
    Node.objects.filter(pk=node.pk).update(black_hole_at=DatabaseNow())
    check_soon(node.gpus.filter(present=True).values_list("pk", flat=True))
    evidence = {
        "node": node.name,
        "jobs": list(found.jobs),
        "well_elsewhere": found.well_elsewhere,
        "quick_elsewhere": found.quick_elsewhere,
    }
    record("node.black_hole", actor="platform", node_id=node.pk, data=evidence)
    mail_operators(
        subject=f"Node {node.name} fails its jobs and was cordoned",
        body=(
            f"{reason[0].upper()}{reason[1:]}.\n"
            f"The jobs: {', '.join(map(str, found.jobs))}.\n"
            "Nothing new starts there. Resume the node in the admin when it has been looked at.\n"
        ),
    )
