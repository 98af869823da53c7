"""The only functions that change the state of an offer, by an UPDATE that names the expected state."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import timedelta
from functools import partial

from django.db import transaction

from muster.common.models import DatabaseNow
from muster.events.redis import offers_channel, publish
from muster.events.services import record
from muster.offers.models import Offer, OfferedGpu, OfferFilter
from scheduler.model.lifecycle import OfferState, require_move


def accept(offer: Offer, *, actor: str) -> bool:
    """Take the offer for its framework, in the caller's transaction; False if it has ended or expired."""
    require_move("offer", OfferState.STANDING, OfferState.ACCEPTED)
    standing = Offer.objects.filter(pk=offer.pk, state=OfferState.STANDING, expires_at__gt=DatabaseNow())
    if not standing.update(state=OfferState.ACCEPTED, ended_at=DatabaseNow()):
        return False
    OfferedGpu.objects.filter(offer=offer).delete()
    record_offers([offer], OfferState.ACCEPTED, actor=actor)
    return True


def end_offers(offers: Iterable[Offer], target: OfferState, *, actor: str, detail: str = "") -> int:
    """End the offers that still stand, and return their number; their GPUs are free at once."""
    require_move("offer", OfferState.STANDING, target)
    of_framework: defaultdict[int, list[Offer]] = defaultdict(list)
    for offer in offers:
        standing = Offer.objects.filter(pk=offer.pk, state=OfferState.STANDING)
        if standing.update(state=target, ended_at=DatabaseNow(), detail=detail):
            of_framework[offer.framework_id].append(offer)
    OfferedGpu.objects.filter(offer__in=[one.pk for ended in of_framework.values() for one in ended]).delete()
    for _, ended in sorted(of_framework.items()):
        record_offers(ended, target, actor=actor)
    return sum(map(len, of_framework.values()))


def set_filter(framework_id: int, node_id: int, for_s: float) -> None:
    """Offer the framework nothing of the node for a time; 0 ends its filter."""
    OfferFilter.objects.update_or_create(
        framework_id=framework_id, node_id=node_id, defaults={"until": DatabaseNow() + timedelta(seconds=for_s)}
    )


def tell_frameworks(user_ids: Iterable[int]) -> None:
    """Wake the requests that wait for offers of these users, once the transaction has committed."""
    for user_id in sorted(user_ids):
        transaction.on_commit(partial(publish, offers_channel(user_id)))


def record_offers(offers: list[Offer], what: str, *, actor: str) -> None:
    """Record one event of offers of one framework, not one for each of perhaps a thousand nodes."""
    role = offers[0].framework.role
    data = {
        "framework": offers[0].framework_id,
        "role": role.name,
        "offers": [offer.pk for offer in offers],
        "gpus": sum(len(offer.gpu_ids) for offer in offers),
    }
    record(f"offers.{what}", actor=actor, tenant_id=role.vc.tenant_id, data=data)
