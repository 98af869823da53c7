"""Frameworks and their offers."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import F, Q, QuerySet

from muster.accounts.models import User
from muster.common.errors import NotFound
from muster.common.models import DatabaseNow
from muster.common.rows import require_first
from muster.fleet.models import Pool
from muster.offers.models import Framework, Offer
from muster.tenants.selectors import tenants_of
from scheduler import model
from scheduler.model.lifecycle import OfferState
from scheduler.outside.offers import reservation_of

# A framework that has not asked for this time gets no further offers.
ASKS_FOR = timedelta(seconds=60)
# The conditions of a cycle's hooks: whether the pool has frameworks, and standing offers.
HAS_FRAMEWORKS = """EXISTS (
    SELECT FROM offers_framework framework JOIN offers_role role ON role.id = framework.role_id
    JOIN tenants_virtualcluster vc ON vc.id = role.vc_id WHERE vc.pool_id = pool.id
)"""
HAS_STANDING = f"""EXISTS (
    SELECT FROM offers_offer offer JOIN fleet_node node ON node.id = offer.node_id
    WHERE node.pool_id = pool.id AND offer.state = '{OfferState.STANDING.value}'
)"""
# The age at which the time of its last request is updated.
_SEEN_AGAIN_AFTER = timedelta(seconds=5)


def frameworks_of(user: User) -> QuerySet[Framework]:
    """The user's frameworks in roles of tenants to which they still belong."""
    return (
        Framework.objects.filter(user=user, role__vc__tenant__in=tenants_of(user))
        .select_related("role__vc__tenant", "role__vc__pool", "user")
        .order_by("pk")
    )


def get_framework(user: User, framework_id: int) -> Framework:
    """The framework; `NotFound` if there is none or it is another user's."""
    rows = frameworks_of(user).filter(pk=framework_id).order_by()
    return require_first(rows, f"you have no framework {framework_id}")


def get_offer(user: User, offer_id: int) -> Offer:
    """The offer, standing or ended; `NotFound` if there is none or it is another user's."""
    offers = Offer.objects.filter(pk=offer_id, framework__in=frameworks_of(user).order_by())
    rows = offers.select_related("framework__role__vc__tenant", "framework__role__vc__pool", "node")
    return require_first(rows, f"there is no offer {offer_id} of yours")


def standing_offers(user: User) -> list[Offer]:
    """The standing offers of the user's frameworks, oldest first."""
    return list(
        Offer.objects.filter(
            framework__in=frameworks_of(user).order_by(), state=OfferState.STANDING, expires_at__gt=DatabaseNow()
        )
        .select_related("framework__role", "node")
        .defer("node__inventory")
        .annotate(runtimes=F("node__inventory__runtimes"), mount_roots=F("node__inventory__mount_roots"))
        .order_by("pk")
    )


def note_asked(user: User) -> set[int]:
    """Record that the user's frameworks ask for offers, and return the ids of their pools; `NotFound` if the user has
    no framework."""
    pools = set(frameworks_of(user).order_by().values_list("role__vc__pool_id", flat=True))
    if not pools:
        raise NotFound("you have no framework: register one with POST /api/v1/frameworks")
    stale = Q(seen_at__isnull=True) | Q(seen_at__lt=DatabaseNow() - _SEEN_AGAIN_AFTER)
    Framework.objects.filter(stale, pk__in=frameworks_of(user).order_by().values("pk")).update(seen_at=DatabaseNow())
    return pools


def standing_rows(pool: Pool) -> QuerySet[Offer]:
    """The offers of the pool that have not ended."""
    return Offer.objects.filter(state=OfferState.STANDING, node__pool=pool).order_by("pk")


def share_of(offer: Offer) -> model.AllocationView:
    """The resources of the offer."""
    return model.AllocationView(offer.node_id, 0, tuple(offer.gpu_ids), offer.cpus, offer.memory_mib)


def standing_reservations(pool: Pool) -> list[model.Reservation]:
    """The standing offers of the pool as reservations, for decisions and validation."""
    return [reservation_of(row.pk, share_of(row), row.expires_at.timestamp()) for row in standing_rows(pool)]
