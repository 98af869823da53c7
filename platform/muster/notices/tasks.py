"""Celery: reading events, posting to webhooks, gathered mail, digests."""

from __future__ import annotations

import time

from celery import shared_task

from muster.notices import digest, mails, posting, reading

LONGEST_TURN_S = 20.0
"""So long a worker may go on with what waits before it looks at other tasks."""


@shared_task(name="notices.read_events")
def read_events() -> int:
    """Read new events until there is none; returns how many."""
    began, count = time.monotonic(), 0
    while time.monotonic() - began < LONGEST_TURN_S:
        found = reading.read_events()
        count += found
        if found < reading.BATCH:
            break
    return count


@shared_task(name="notices.deliver_webhooks")
def deliver_webhooks() -> int:
    """Post what is due as long as all of it arrives; returns how much did."""
    began, count = time.monotonic(), 0
    while time.monotonic() - began < LONGEST_TURN_S:
        arrived = posting.deliver_webhooks()
        count += arrived
        if arrived < posting.AT_ONCE:
            break
    return count


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
