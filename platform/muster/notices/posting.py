"""Posting what waits for webhooks: several at once, each signed, a receiver that fails left alone for a while.

The database is asked before and after, never while a call is on its way.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta

import orjson
from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from muster.common.sealed import Unreadable, unseal
from muster.events.delivery import MAX_PAUSE_S, WEBHOOK, drop, note_delivered, note_failed, take_due, waiting
from muster.events.models import Outbox
from muster.notices.addresses import BadUrl, Rules, read_url
from muster.notices.mails import can_have_mail, store_mail
from muster.notices.models import Webhook
from muster.notices.outward import Limits, NotSent, post
from muster.notices.webhooks import PING, TRIED_FOR, rules
from muster.notices.wording import one_line

log = logging.getLogger(__name__)

AT_ONCE = 16
GONE = 410


@dataclass(frozen=True, slots=True)
class Call:
    """One POST that is to be made: all that it takes, without the database."""

    row: Outbox
    webhook: Webhook
    secret: str | None
    """None if what is stored cannot be read."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a call: the status of its answer, or the reason why there is none."""

    said: str
    went_well: bool = False
    gone: bool = False


def deliver_webhooks(*, limit: int = AT_ONCE, limits: Limits | None = None) -> int:
    """Post up to `limit` documents that are due, and return how many arrived.

    1. The rows are taken for as long as the lease. Those of webhooks that are gone or disabled are given up; of a
       webhook that fails only one is sent, and the others wait for what becomes of it.
    2. The calls are made at the same time, each within its own deadline.
    3. The results are stored. A webhook that failed for a day, or whose receiver says that it is gone, is disabled.
    """
    now = timezone.now()
    calls = _prepare(take_due(waiting().filter(topic=WEBHOOK), limit=limit), now)
    if not calls:
        return 0
    allowed = rules()
    with ThreadPoolExecutor(max_workers=len(calls), thread_name_prefix="webhook") as pool:
        results = list(pool.map(lambda call: _make(call, allowed, limits or Limits(), now), calls))
    for call, result in zip(calls, results, strict=True):
        _settle(call, result)
    return sum(result.went_well for result in results)


def headers_for(body: bytes, *, message_id: str, at: datetime, secret: str) -> dict[str, str]:
    """The headers of a signed call, as https://www.standardwebhooks.com describes them."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    stamp = str(int(at.timestamp()))
    signed = hmac.new(key, f"{message_id}.{stamp}.".encode() + body, hashlib.sha256).digest()
    return {
        "Content-Type": "application/json",
        "User-Agent": "Muster",
        "Webhook-Id": message_id,
        "Webhook-Timestamp": stamp,
        "Webhook-Signature": f"v1,{base64.b64encode(signed).decode()}",
    }


def _prepare(rows: list[Outbox], now: datetime) -> list[Call]:
    found = Webhook.objects.in_bulk([row.payload["webhook"] for row in rows])
    calls: list[Call] = []
    tried: set[int] = set()
    for row in rows:
        webhook = found.get(row.payload["webhook"])
        is_ping = row.payload["document"]["type"] == PING
        if webhook is None or webhook.disabled_by or (webhook.disabled_at is not None and not is_ping):
            drop([row.pk], "the webhook is gone" if webhook is None else f"disabled: {webhook.reason}")
            continue
        if not is_ping and webhook.failing_since is not None:
            not_before = webhook.not_before or now
            if webhook.pk in tried or not_before > now:
                later = max(not_before, now + timedelta(seconds=1))
                Outbox.objects.filter(pk=row.pk).update(due_at=later, tries=F("tries") - 1)
                continue
        tried.add(webhook.pk)
        calls.append(Call(row, webhook, _secret_of(webhook)))
    return calls


def _secret_of(webhook: Webhook) -> str | None:
    try:
        return unseal(webhook.sealed_secret)
    except Unreadable:
        return None


def _make(call: Call, allowed: Rules, limits: Limits, now: datetime) -> Result:
    if call.secret is None:
        return Result("the stored secret cannot be read; make the webhook anew")
    document = {"id": call.row.payload["id"], **call.row.payload["document"]}
    body = orjson.dumps(document)
    headers = headers_for(body, message_id=call.row.payload["id"], at=now, secret=call.secret)
    try:
        status = post(read_url(call.webhook.url), body=body, headers=headers, rules=allowed, limits=limits)
    except (NotSent, BadUrl) as error:
        return Result(one_line(str(error), 300))
    if 300 <= status < 400:
        return Result(f"answered {status}: redirects are not followed")
    return Result(f"answered {status}", went_well=200 <= status < 300, gone=status == GONE)


def _settle(call: Call, result: Result) -> None:
    row, webhook = call.row, Webhook.objects.filter(pk=call.webhook.pk)
    now = timezone.now()
    if result.went_well:
        with transaction.atomic():
            webhook.update(
                failures=0,
                failing_since=None,
                not_before=None,
                last_try_at=now,
                last_success_at=now,
                last_result=result.said,
            )
            # Only a ping is sent to one that is disabled, and an operator's word stands.
            webhook.filter(disabled_by="").update(disabled_at=None, reason="")
            note_delivered(row)
        return
    pause = timedelta(seconds=min(2 ** min(call.webhook.failures + 1, 12), MAX_PAUSE_S))
    with transaction.atomic():
        webhook.update(
            failures=F("failures") + 1,
            failing_since=Coalesce(F("failing_since"), now),
            not_before=now + pause,
            last_try_at=now,
            last_result=result.said,
        )
        note_failed(row, result.said, due_at=now + pause)
        # All that waits for it waits as long, or it would fill the turns of those whose receivers work.
        _waiting_for(call.webhook.pk).filter(due_at__lt=now + pause).update(due_at=now + pause)
        _disable_if_hopeless(call.webhook.pk, result, now)


def _waiting_for(webhook_id: int) -> QuerySet[Outbox]:
    return waiting().filter(topic=WEBHOOK, payload__webhook=webhook_id)


def _disable_if_hopeless(webhook_id: int, result: Result, now: datetime) -> None:
    webhook = Webhook.objects.select_for_update(no_key=True).select_related("user").filter(pk=webhook_id).first()
    if webhook is None or webhook.disabled_at is not None or webhook.failing_since is None:
        return
    if result.gone:
        reason = "its receiver says that it is gone (410)"
    elif webhook.failing_since + TRIED_FOR <= now:
        reason = f"for a day no call went well; the last one: {result.said}"
    else:
        return
    Webhook.objects.filter(pk=webhook_id).update(disabled_at=now, disabled_by="", reason=reason)
    drop(_waiting_for(webhook_id).values_list("pk", flat=True), reason)
    log.warning("webhook_disabled id=%s reason=%s", webhook_id, reason)
    if can_have_mail(webhook.user):
        host = read_url(webhook.url).host
        body = (
            f"Your webhook {webhook_id} to {host} gets nothing any more: {reason}.\n\n"
            "Once its receiver works again, a ping that goes well takes it into use:\n\n"
            f"    muster webhook test {webhook_id}\n"
        )
        store_mail(webhook.user, f"Your webhook to {host} was disabled", body)
