"""The end of each cycle: withdraw expired offers, and offer what the cycle left free."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.db.models import Q

from muster.common.clock import database_now
from muster.common.models import DatabaseNow
from muster.dispatch.config.settings import config_of
from muster.dispatch.snapshot.snapshot import locked_snapshot, pool_snapshot
from muster.fleet.models import Node, Pool
from muster.offers.models import Framework, Launch, Offer, OfferedGpu, OfferFilter
from muster.offers.selectors import ASKS_FOR, share_of, standing_rows
from muster.offers.transitions import end_offers, record_offers, set_filter, tell_frameworks
from muster.tenants.models import Membership
from scheduler import model
from scheduler.engine.cycle import compose
from scheduler.engine.state import SchedulerState
from scheduler.engine.usage import CPUS, MEMORY_MIB
from scheduler.model.lifecycle import NodeAdmin, NodeHealth, OfferState, RuntimeNeed
from scheduler.outside import offers as two_level

log = logging.getLogger(__name__)

MAX_OFFERS = 256
# For how long the node of an unanswered offer goes to other frameworks. Otherwise a hanging framework would keep it.
UNANSWERED_FILTER_S = 5.0


def offer_round(pool: Pool) -> None:
    """Withdraw expired offers, and offer what is free in the pool as `scheduler.outside.offers` decides."""
    frameworks = list(Framework.objects.filter(role__vc__pool=pool).select_related("role__vc", "user").order_by("pk"))
    if not frameworks:
        return
    take_back(pool)
    asking = _asking(frameworks)
    if asking:
        _store(pool, _decided(pool, frameworks, asking))


def take_back(pool: Pool) -> None:
    """End the standing offers that have expired, or whose node is out of service."""
    in_service = Q(node__admin=NodeAdmin.ACTIVE, node__health=NodeHealth.READY)
    sick = OfferedGpu.objects.filter(Q(gpu__healthy=False) | Q(gpu__present=False))
    with transaction.atomic():
        # An offer that is being accepted right now stays.
        standing = standing_rows(pool).select_for_update(no_key=True, skip_locked=True, of=("self",))
        late = list(standing.filter(expires_at__lte=DatabaseNow()).select_related("framework__role__vc", "node"))
        end_offers(late, OfferState.EXPIRED, actor="scheduler")
        for offer in late:
            set_filter(offer.framework_id, offer.node_id, UNANSWERED_FILTER_S)
        gone = standing.filter(~in_service | Q(pk__in=sick.values("offer_id")))
        lost = list(gone.select_related("framework__role__vc", "node"))
        end_offers(lost, OfferState.RESCINDED, actor="scheduler", detail="its node, or a GPU of it, is out of service")
        OfferFilter.objects.filter(framework__role__vc__pool=pool, until__lte=DatabaseNow()).delete()


def _asking(frameworks: Iterable[Framework]) -> set[int]:
    """The ids of the frameworks that asked recently and whose users may still use the virtual cluster."""
    since = database_now() - ASKS_FOR
    found = [one for one in frameworks if one.seen_at is not None and one.seen_at > since and one.user.is_active]
    members = set(
        Membership.objects.filter(user__in=[one.user_id for one in found]).values_list("user_id", "tenant_id")
    )
    return {one.pk for one in found if one.user.is_operator or (one.user_id, one.role.vc.tenant_id) in members}


def _decided(pool: Pool, frameworks: list[Framework], asking: set[int]) -> tuple[two_level.Offer, ...]:
    snapshot = pool_snapshot(pool, seed=pool.pk)
    held = _held(snapshot)
    roles = {one.role_id: one.role for one in frameworks}
    standing = standing_rows(pool).filter(expires_at__gt=DatabaseNow())
    filters = OfferFilter.objects.filter(framework__in=asking).order_by("pk")
    request = two_level.OfferRound(
        roles=[two_level.Role(pk, role.vc_id, role.weight, role.revocable) for pk, role in sorted(roles.items())],
        frameworks=[
            two_level.Framework(
                one.pk, one.role_id, held.get(one.pk, {}), asks=one.pk in asking, needs=RuntimeNeed(one.needs)
            )
            for one in frameworks
        ],
        standing=[two_level.Offer(row.framework_id, share_of(row)) for row in standing],
        filters=[two_level.Filter(row.framework_id, row.node_id, row.until.timestamp()) for row in filters],
        lease_s=pool.offer_lease_s,
    )
    return two_level.offers(snapshot, compose(config_of(pool)).admission, request, most=MAX_OFFERS)


def _held(snapshot: model.Snapshot) -> dict[int, Counter[str]]:
    """GPUs that the jobs of each framework hold."""
    launched = Launch.objects.filter(job__in=[run.job.id for run in snapshot.running])
    framework_of = dict(launched.values_list("job_id", "framework_id"))
    held: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for run in snapshot.running:
        if run.job.id not in framework_of:
            continue
        vector = held[framework_of[run.job.id]]
        for share in run.allocations:
            vector[CPUS] += share.cpus
            vector[MEMORY_MIB] += share.memory_mib
            for gpu_id in share.gpu_ids:
                gpu = snapshot.gpu_by_id.get(gpu_id)
                if gpu is not None:
                    vector[gpu.type] += 1
    return held


def _store(pool: Pool, decided: tuple[two_level.Offer, ...]) -> None:
    """Store the offers of what is still free, under the lock of their nodes, in one transaction."""
    if not decided:
        return
    try:
        with transaction.atomic():
            made = _insert(pool, decided)
            _record_made(made)
            tell_frameworks({offer.framework.user_id for offer in made})
    except IntegrityError as error:
        # Another process made an offer, or the framework has just left. The next round tries again.
        log.info("offers_not_made pool=%s error=%s", pool.name, error)


def _insert(pool: Pool, decided: tuple[two_level.Offer, ...]) -> list[Offer]:
    shares = {one.share.node_id: one for one in decided}
    nodes = list(Node.objects.select_for_update(no_key=True).filter(pk__in=sorted(shares)).order_by("pk"))
    now = database_now()
    free = SchedulerState(locked_snapshot(pool, [], [], nodes)).free
    # An offer whose end is not committed yet counts as standing; the next round offers its GPUs.
    offered = set(OfferedGpu.objects.filter(gpu__node__in=nodes).values_list("gpu_id", flat=True))
    rows: list[Offer] = []
    frameworks = Framework.objects.select_related("role__vc").in_bulk([one.framework_id for one in decided])
    for node in nodes:
        one, left = shares[node.pk], free.node(node.pk)
        there = set() if left is None else {gpu_id for gpu_ids in left.gpus.values() for gpu_id in gpu_ids} - offered
        if left is None or not set(one.share.gpu_ids) <= there or one.framework_id not in frameworks:
            continue
        if left.cpus < one.share.cpus or left.memory_mib < one.share.memory_mib:
            continue
        rows.append(
            Offer(
                framework=frameworks[one.framework_id],
                node=node,
                gpu_ids=list(one.share.gpu_ids),
                cpus=one.share.cpus,
                memory_mib=one.share.memory_mib,
                expires_at=now + timedelta(seconds=pool.offer_lease_s),
            )
        )
    Offer.objects.bulk_create(rows)
    OfferedGpu.objects.bulk_create([OfferedGpu(gpu_id=gpu_id, offer=row) for row in rows for gpu_id in row.gpu_ids])
    return rows


def _record_made(made: Iterable[Offer]) -> None:
    of_framework: defaultdict[int, list[Offer]] = defaultdict(list)
    for offer in made:
        of_framework[offer.framework_id].append(offer)
    for _, offers in sorted(of_framework.items()):
        record_offers(offers, "made", actor="scheduler")
