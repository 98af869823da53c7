"""A user's webhooks: making and removing them, and asking for a ping."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from datetime import timedelta

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from muster.accounts.models import User
from muster.common.errors import Conflict, Invalid
from muster.common.rows import require_first
from muster.common.sealed import seal
from muster.events.delivery import WEBHOOK, drop, waiting
from muster.events.models import Outbox
from muster.events.services import audit
from muster.notices.addresses import BadUrl, Rules, Target, read_networks, read_ports, read_url
from muster.notices.models import MAX_URL_CHARS, Webhook

MAX_PER_USER = 10
TRIED_FOR = timedelta(days=1)
PING = "ping"


def rules() -> Rules:
    """The operators' rules for targets of webhooks."""
    return Rules(networks=read_networks(settings.WEBHOOK_NETWORKS), ports=read_ports(settings.WEBHOOK_PORTS))


def webhooks_of(user: User) -> QuerySet[Webhook]:
    """The user's webhooks, oldest first."""
    return Webhook.objects.filter(user=user).order_by("pk")


def get_webhook(user: User, webhook_id: int) -> Webhook:
    """The user's webhook; `NotFound` if there is none or it is another's."""
    return require_first(webhooks_of(user).filter(pk=webhook_id), f"you have no webhook {webhook_id}")


def add_webhook(*, user: User, url: str) -> tuple[Webhook, str]:
    """A new webhook and the secret that its calls are signed with, which can be shown this once only."""
    target = require_url(url)
    secret = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
    try:
        with transaction.atomic():
            # The user's row is locked, so that two calls at once count each other.
            User.objects.select_for_update(no_key=True).get(pk=user.pk)
            if webhooks_of(user).count() >= MAX_PER_USER:
                raise Conflict(f"you have {MAX_PER_USER} webhooks already; remove one first")
            webhook = Webhook.objects.create(user=user, url=url.strip(), sealed_secret=seal(secret))
            # Paths are secrets at many receivers; the host says enough.
            told = {"host": target.host}
            audit("create", "webhook", webhook.pk, actor=user.username, after=told)
    except IntegrityError as error:
        raise Conflict("you have a webhook with this URL already") from error
    webhook.refresh_from_db()
    return webhook, secret


def remove_webhook(*, webhook: Webhook, actor: str) -> None:
    """Forget the webhook and what waits for it."""
    with transaction.atomic():
        _drop_waiting(webhook, "the webhook was removed")
        Webhook.objects.filter(pk=webhook.pk).delete()
        audit("delete", "webhook", webhook.pk, actor=actor)


def disable_webhook(*, webhook: Webhook, reason: str, actor: str) -> None:
    """Send nothing to the webhook any more; an operator's act, so its owner cannot undo it by a ping."""
    with transaction.atomic():
        changed = Webhook.objects.filter(pk=webhook.pk).exclude(disabled_by=actor)
        if changed.update(disabled_at=timezone.now(), disabled_by=actor, reason=reason[:500]):
            _drop_waiting(webhook, reason)
            audit("disable", "webhook", webhook.pk, actor=actor, after={"reason": reason})


def enable_webhook(*, webhook: Webhook, actor: str) -> None:
    """Send to the webhook again, from now on."""
    with transaction.atomic():
        changed = Webhook.objects.filter(pk=webhook.pk, disabled_at__isnull=False)
        if changed.update(disabled_at=None, disabled_by="", reason="", failures=0, failing_since=None, not_before=None):
            audit("enable", "webhook", webhook.pk, actor=actor)


def ping_webhook(*, webhook: Webhook) -> None:
    """Have a ping sent. One that goes well takes a webhook that its failures had disabled into use again."""
    if webhook.disabled_by:
        raise Conflict(f"an operator has disabled this webhook: {webhook.reason}")
    document = {"type": PING, "timestamp": _now_text(), "data": {"kind": PING}}
    with transaction.atomic():
        # One ping at a time waits: asking again asks for the same.
        Webhook.objects.select_for_update(no_key=True).get(pk=webhook.pk)
        if not waiting().filter(topic=WEBHOOK, payload__webhook=webhook.pk, payload__document__type=PING).exists():
            row = outbox_row(webhook.pk, document)
            row.give_up_at = timezone.now()
            row.save(force_insert=True)


def outbox_row(webhook_id: int, document: Mapping[str, object]) -> Outbox:
    """The outbox row to post, not stored yet. Its id is the same at each try."""
    payload = {"webhook": webhook_id, "id": f"msg_{secrets.token_urlsafe(18)}", "document": dict(document)}
    return Outbox(topic=WEBHOOK, payload=payload, give_up_at=timezone.now() + TRIED_FOR)


def require_url(text: str) -> Target:
    """The parts of a URL to which the operators' rules have no objection, or `Invalid`.

    A name is not resolved here: what it stands for is judged when it is connected to, each time.
    """
    text = text.strip()
    if len(text) > MAX_URL_CHARS:
        raise Invalid.field("url", f"it may have at most {MAX_URL_CHARS} characters")
    try:
        target = read_url(text)
    except BadUrl as error:
        raise Invalid.field("url", str(error)) from error
    allowed = rules()
    literal = target.literal
    objection = allowed.objection_to_port(target.port) or (allowed.objection_to(literal) if literal else "")
    if objection:
        raise Invalid.field("url", objection)
    return target


def _drop_waiting(webhook: Webhook, why: str) -> None:
    drop(waiting().filter(topic=WEBHOOK, payload__webhook=webhook.pk).values_list("pk", flat=True), why)


def _now_text() -> str:
    return timezone.now().isoformat().replace("+00:00", "Z")
