"""Celery tasks: delete ended offers."""

from __future__ import annotations

from datetime import timedelta

from celery import shared_task

from muster.common.models import DatabaseNow
from muster.offers.models import Offer
from scheduler.model.lifecycle import OfferState

# Each free node is offered again every few seconds, so unused offers are deleted soon.
KEPT_FOR = timedelta(hours=1)
ACCEPTED_KEPT_FOR = timedelta(days=30)


@shared_task(name="offers.forget_old_offers")
def forget_old_offers() -> None:
    """Delete the offers that ended long ago; launched jobs stay."""
    over = Offer.objects.filter(ended_at__lt=DatabaseNow() - KEPT_FOR)
    over.exclude(state=OfferState.ACCEPTED).delete()
    over.filter(ended_at__lt=DatabaseNow() - ACCEPTED_KEPT_FOR).delete()
