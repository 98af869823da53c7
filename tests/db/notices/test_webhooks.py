"""Webhooks: what is posted, signed, tried again, given up; through the outbox to a real receiver."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from muster.accounts.models import User
from muster.common.errors import Conflict, Invalid, NotFound
from muster.common.sealed import unseal
from muster.events.delivery import WEBHOOK, deliver_due, waiting
from muster.events.models import AuditEntry, Outbox
from muster.notices.models import Webhook
from muster.notices.outward import Limits
from muster.notices.posting import deliver_webhooks
from muster.notices.webhooks import (
    MAX_PER_USER,
    add_webhook,
    disable_webhook,
    enable_webhook,
    get_webhook,
    outbox_row,
    ping_webhook,
    remove_webhook,
)
from tests.db.receivers import Hook, hook_server
from tests.db.stories import let_pass, now_of
from tests.factories import make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_committed")]

DAY_S = 86_400


@pytest.fixture
def hook(settings: Any) -> Iterator[Hook]:
    with hook_server(settings) as running:
        yield running


@pytest.fixture
def user(db: None) -> User:
    return make_user("olivia")


def tell(webhook: Webhook, number: int = 1) -> Outbox:
    """A document in the outbox."""
    row = outbox_row(webhook.pk, {"type": "job.failed", "data": {"number": number}})
    row.save()
    return row


def come_due(seconds: float = 4000) -> None:
    """Move the outbox and the webhooks as if this time had passed."""
    for row in waiting():
        let_pass(seconds, row, "due_at")
    for webhook in Webhook.objects.filter(not_before__isnull=False):
        let_pass(seconds, webhook, "not_before")


class TestCalls:
    def test_a_call_can_be_verified_by_the_secret_that_was_shown_once(self, hook: Hook, user: User) -> None:
        webhook, secret = add_webhook(user=user, url=hook.url)
        row = tell(webhook)
        assert deliver_webhooks() == 1
        ((headers, body),) = hook.calls
        signed = f"{headers['Webhook-Id']}.{headers['Webhook-Timestamp']}.".encode() + body
        key = base64.b64decode(secret.removeprefix("whsec_"))
        assert len(key) == 32
        right = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        assert headers["Webhook-Signature"] == f"v1,{right}"
        assert abs(int(headers["Webhook-Timestamp"]) - timezone.now().timestamp()) < 120
        assert hook.documents == [{"id": headers["Webhook-Id"], "type": "job.failed", "data": {"number": 1}}]
        assert now_of(row).delivered_at is not None
        after = now_of(webhook)
        assert (after.last_result, after.failing_since, after.failures) == ("answered 204", None, 0)

    def test_the_secret_is_stored_encrypted_and_told_nowhere_else(self, hook: Hook, user: User) -> None:
        webhook, secret = add_webhook(user=user, url=hook.url)
        assert secret not in webhook.sealed_secret
        assert unseal(webhook.sealed_secret) == secret
        (entry,) = AuditEntry.objects.filter(object_type="webhook")
        assert entry.after == {"host": "127.0.0.1"}

    def test_the_outbox_of_mails_leaves_webhooks_alone(self, hook: Hook, user: User) -> None:
        tell(add_webhook(user=user, url=hook.url)[0])
        assert deliver_due() == 0
        assert (deliver_webhooks(), len(hook.calls)) == (1, 1)

    def test_secrets_can_be_encrypted_by_a_newer_key(self, hook: Hook, user: User, settings: Any) -> None:
        webhook, secret = add_webhook(user=user, url=hook.url)
        new = base64.urlsafe_b64encode(b"n" * 32).decode()
        old = settings.ENCRYPTION_KEYS
        settings.ENCRYPTION_KEYS = [new, *old]
        call_command("reencrypt")
        settings.ENCRYPTION_KEYS = [new]
        assert unseal(now_of(webhook).sealed_secret) == secret


class TestFailures:
    def test_a_failure_is_tried_again_with_the_same_id_until_it_arrives(self, hook: Hook, user: User) -> None:
        webhook, _ = add_webhook(user=user, url=hook.url)
        row = tell(webhook)
        hook.status = 500
        for tries in (1, 2, 3):
            assert deliver_webhooks() == 0
            assert deliver_webhooks() == 0  # it waits
            assert (now_of(row).tries, now_of(row).last_error) == (tries, "answered 500")
            come_due()
        failing = now_of(webhook)
        assert (failing.failures, failing.last_result) == (3, "answered 500")
        assert failing.failing_since is not None
        hook.status = 200
        assert deliver_webhooks() == 1
        assert len({headers["Webhook-Id"] for headers, _ in hook.calls}) == 1
        assert len(hook.calls) == 4
        assert (now_of(webhook).failures, now_of(webhook).failing_since) == (0, None)

    def test_pauses_grow(self, hook: Hook, user: User) -> None:
        webhook, _ = add_webhook(user=user, url=hook.url)
        row, pauses = tell(webhook), []
        hook.status = 503
        for _ in range(4):
            deliver_webhooks()
            pauses.append(round((now_of(row).due_at - now_of(webhook).last_try_at).total_seconds()))
            come_due()
        assert pauses == [2, 4, 8, 16]

    def test_what_waits_for_a_receiver_that_fails_waits_with_it_and_one_call_asks(self, hook: Hook, user: User) -> None:
        webhook, _ = add_webhook(user=user, url=hook.url)
        hook.status = 500
        tell(webhook)
        assert deliver_webhooks() == 0
        rows = [tell(webhook, number) for number in range(5)]
        assert deliver_webhooks() == 0
        assert len(hook.calls) == 1
        come_due()
        assert deliver_webhooks() == 0
        assert len(hook.calls) == 2
        hook.status = 200
        come_due()
        assert deliver_webhooks() == 1
        come_due()
        assert deliver_webhooks() == 5
        assert all(now_of(row).delivered_at for row in rows)

    def test_one_that_hangs_delays_no_other(self, hook: Hook, user: User, settings: Any) -> None:
        import threading

        hook.wait_for = threading.Event()
        slow, _ = add_webhook(user=user, url=hook.url)
        with hook_server(settings) as quick:
            other, _ = add_webhook(user=make_user(), url=quick.url)
            rows = [tell(slow), tell(other)]
            assert deliver_webhooks(limits=Limits(deadline_s=1)) == 1
            hook.wait_for.set()
        assert [now_of(row).delivered_at is not None for row in rows] == [False, True]
        assert now_of(slow).last_result == "no answer within 1 s"

    def test_a_redirect_is_a_failure_and_leads_nowhere(self, hook: Hook, user: User, settings: Any) -> None:
        with hook_server(settings) as other:
            hook.status, hook.location = 307, other.url
            webhook, _ = add_webhook(user=user, url=hook.url)
            tell(webhook)
            assert deliver_webhooks() == 0
            assert other.calls == []
        assert now_of(webhook).last_result == "answered 307: redirects are not followed"

    def test_a_network_that_operators_no_longer_allow_is_refused_at_the_call(
        self, hook: Hook, user: User, settings: Any
    ) -> None:
        webhook, _ = add_webhook(user=user, url=hook.url)
        settings.WEBHOOK_NETWORKS = ""
        tell(webhook)
        assert deliver_webhooks() == 0
        assert hook.calls == []
        assert "127.0.0.1 is not a public address" in now_of(webhook).last_result

    def test_a_secret_that_cannot_be_read_is_a_failure_and_stops_no_other(self, hook: Hook, user: User) -> None:
        broken, _ = add_webhook(user=user, url=hook.url)
        Webhook.objects.filter(pk=broken.pk).update(sealed_secret="nonsense")
        other, _ = add_webhook(user=make_user(), url=hook.url)
        tell(broken)
        tell(other)
        assert deliver_webhooks() == 1
        assert "cannot be read" in now_of(broken).last_result


class TestGivingUp:
    def test_after_a_day_of_failures_it_is_disabled_and_says_why(self, hook: Hook, user: User) -> None:
        webhook, _ = add_webhook(user=user, url=hook.url)
        hook.status = 500
        first = tell(webhook)
        deliver_webhooks()
        let_pass(DAY_S, webhook, "failing_since")
        let_pass(DAY_S, first, "give_up_at")
        come_due()
        later = tell(webhook)
        assert deliver_webhooks() == 0
        disabled = now_of(webhook)
        assert disabled.disabled_at is not None
        assert disabled.reason == "for a day no call went well; the last one: answered 500"
        assert now_of(first).dropped_at is not None
        assert now_of(later).dropped_at is not None
        assert not waiting().filter(topic=WEBHOOK).exists()

    def test_a_short_failure_does_not_disable_it(self, hook: Hook, user: User) -> None:
        webhook, _ = add_webhook(user=user, url=hook.url)
        hook.status = 500
        tell(webhook)
        deliver_webhooks()
        let_pass(DAY_S - 3600, webhook, "failing_since")
        come_due()
        deliver_webhooks()
        assert now_of(webhook).disabled_at is None

    def test_a_receiver_that_says_it_is_gone_disables_it_at_once(self, hook: Hook, user: User) -> None:
        webhook, _ = add_webhook(user=user, url=hook.url)
        hook.status = 410
        tell(webhook)
        deliver_webhooks()
        assert "gone" in now_of(webhook).reason

    def test_a_ping_that_goes_well_takes_it_into_use_again(self, hook: Hook, user: User) -> None:
        webhook, _ = add_webhook(user=user, url=hook.url)
        hook.status = 410
        tell(webhook)
        deliver_webhooks()
        ping_webhook(webhook=now_of(webhook))
        assert deliver_webhooks() == 0
        assert now_of(webhook).disabled_at is not None
        assert not waiting().exists()  # a ping is tried once
        hook.status = 204
        ping_webhook(webhook=now_of(webhook))
        assert deliver_webhooks() == 1
        assert (now_of(webhook).disabled_at, now_of(webhook).reason) == (None, "")
        assert hook.documents[-1]["type"] == "ping"

    def test_pings_that_wait_are_one(self, hook: Hook, user: User) -> None:
        webhook, _ = add_webhook(user=user, url=hook.url)
        for _ in range(3):
            ping_webhook(webhook=webhook)
        assert deliver_webhooks() == 1

    def test_what_an_operator_disabled_its_owner_cannot_enable(self, hook: Hook, user: User) -> None:
        webhook, _ = add_webhook(user=user, url=hook.url)
        row = tell(webhook)
        ping_webhook(webhook=webhook)
        disable_webhook(webhook=webhook, reason="too loud", actor="oscar")
        assert now_of(row).last_error == "too loud"
        with pytest.raises(Conflict, match="too loud"):
            ping_webhook(webhook=now_of(webhook))
        tell(webhook)
        assert deliver_webhooks() == 0
        assert hook.calls == []
        enable_webhook(webhook=webhook, actor="oscar")
        tell(webhook)
        assert deliver_webhooks() == 1


class TestOwning:
    @pytest.mark.parametrize(
        ("url", "message"),
        [
            ("ftp://example.org/", "must start with https"),
            ("http://10.0.0.1/", "not a public address"),
            ("http://[::1]/", "not a public address"),
            ("http://169.254.169.254/latest/meta-data", "metadata"),
            ("http://0x7f.1/", "four decimal numbers"),
            ("http://user:pw@example.org/", "name or password"),
            ("http://example.org:25/", "port 25"),
            ("", "printable ASCII"),
            ("https://example.org/" + "x" * 1000, "at most 1000"),
        ],
    )
    def test_a_url_that_can_never_work_is_refused_at_once(self, user: User, url: str, message: str) -> None:
        with pytest.raises(Invalid, match=message) as refused:
            add_webhook(user=user, url=url)
        assert [error.field for error in refused.value.errors] == ["url"]

    def test_the_same_url_twice_is_a_conflict_and_two_users_may_have_it(self, user: User) -> None:
        add_webhook(user=user, url="https://example.org/x")
        with pytest.raises(Conflict):
            add_webhook(user=user, url="https://example.org/x")
        add_webhook(user=make_user(), url="https://example.org/x")

    def test_there_is_a_limit(self, user: User) -> None:
        for number in range(MAX_PER_USER):
            add_webhook(user=user, url=f"https://example.org/{number}")
        with pytest.raises(Conflict, match="remove one"):
            add_webhook(user=user, url="https://example.org/more")

    def test_one_that_is_removed_takes_what_waits_for_it_along(self, hook: Hook, user: User) -> None:
        webhook, _ = add_webhook(user=user, url=hook.url)
        row = tell(webhook)
        remove_webhook(webhook=webhook, actor="olivia")
        assert deliver_webhooks() == 0
        assert (hook.calls, now_of(row).last_error) == ([], "the webhook was removed")

    def test_anothers_is_not_found(self, user: User) -> None:
        webhook, _ = add_webhook(user=user, url="https://example.org/x")
        with pytest.raises(NotFound):
            get_webhook(make_user(), webhook.pk)


def test_old_rows_of_the_outbox_are_forgotten_and_waiting_ones_are_not(hook: Hook, user: User) -> None:
    from muster.events.tasks import forget_deliveries

    webhook, _ = add_webhook(user=user, url=hook.url)
    delivered, dropped, waits, fresh = (tell(webhook, number) for number in range(4))
    Outbox.objects.filter(pk=delivered.pk).update(delivered_at=timezone.now())
    Outbox.objects.filter(pk=dropped.pk).update(dropped_at=timezone.now())
    for row in (delivered, dropped, waits):
        let_pass(timedelta(days=8).total_seconds(), row, "created_at")
    Outbox.objects.filter(pk=fresh.pk).update(delivered_at=timezone.now())
    assert forget_deliveries() == 2
    assert set(Outbox.objects.values_list("pk", flat=True)) == {waits.pk, fresh.pk}
