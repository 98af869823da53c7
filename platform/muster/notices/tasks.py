"""Celery: reading events, posting to webhooks, gathered mail, digests."""

from __future__ import annotations

from celery import shared_task

from muster.common.periodic import only_if
from muster.common.turns import in_batches
from muster.events.delivery import WEBHOOK, any_waiting_sql
from muster.events.selectors import has_news_sql
from muster.notices import digest, mails, posting, reading

only_if("notices.read_events", has_news_sql("notices_reader"))
only_if("notices.deliver_webhooks", any_waiting_sql(f"= '{WEBHOOK}'"))


@shared_task(name="notices.read_events")
def read_events() -> int:
    """Read new events until there is none; returns how many."""
    return in_batches(reading.read_events, of=reading.BATCH)


@shared_task(name="notices.deliver_webhooks")
def deliver_webhooks() -> int:
    """Post what is due as long as all of it arrives; returns how much did."""
    return in_batches(posting.deliver_webhooks, of=posting.AT_ONCE)


@shared_task(name="notices.gather")
def gather() -> int:
    """Send what waited to be gathered; returns how many mails."""
    return mails.gather()


@shared_task(name="notices.send_digests")
def send_digests() -> int:
    """Send the digests of last week; returns how many."""
    return digest.send_digests()


@shared_task(name="notices.forget")
def forget() -> int:
    """Remove notices that decide nothing any more; returns how many."""
    return mails.forget_told()
