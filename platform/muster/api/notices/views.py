"""The caller's settings for notifications, and their webhooks."""

from __future__ import annotations

from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from muster.accounts.models import User
from muster.api.base import ApiView, body_of, caller, describe
from muster.api.notices import bodies
from muster.common.clock import moment
from muster.notices.mails import why_no_mail
from muster.notices.models import Webhook
from muster.notices.preferences import Choice, choice_of, choose, ordered
from muster.notices.webhooks import add_webhook, get_webhook, ping_webhook, remove_webhook, webhooks_of
from muster_client.answers import notices as answers


class MyNotifications(ApiView):
    @describe("get_notifications", "account", {200: answers.Notifications})
    def get(self, request: Request) -> Response:
        """The events that you are notified of, by mail and by your webhooks."""
        user = caller(request)
        return Response(_chosen(user, choice_of(user)))

    @describe("change_notifications", "account", {200: answers.Notifications}, request=bodies.NotificationChanges)
    def patch(self, request: Request) -> Response:
        """Choose the events that you are notified of. A job's own `notify` setting overrides these."""
        user = caller(request)
        return Response(_chosen(user, choose(user=user, changes=body_of(request, bodies.NotificationChanges))))


class Webhooks(ApiView):
    @describe("list_webhooks", "account", {200: answers.WebhookList})
    def get(self, request: Request) -> Response:
        """Your webhooks and their states, oldest first."""
        results = [_shown(row) for row in webhooks_of(caller(request))]
        return Response(answers.WebhookList(results=results, next=None))

    @describe("create_webhook", "account", {201: answers.WebhookWithSecret}, problems=(409,), request=bodies.NewWebhook)
    def post(self, request: Request) -> Response:
        """Make a webhook. The secret that its calls are signed with is in this answer and never shown again."""
        row, secret = add_webhook(user=caller(request), url=body_of(request, bodies.NewWebhook)["url"])
        answer: answers.WebhookWithSecret = {**_shown(row), "secret": secret}
        return Response(answer, status=status.HTTP_201_CREATED)


class OneWebhook(ApiView):
    @describe("get_webhook", "account", {200: answers.Webhook}, problems=(404,))
    def get(self, request: Request, webhook_id: int) -> Response:
        """The webhook and its state."""
        return Response(_shown(get_webhook(caller(request), webhook_id)))

    @describe("delete_webhook", "account", {204: None}, problems=(404,))
    def delete(self, request: Request, webhook_id: int) -> Response:
        """Remove the webhook. Waiting notifications are not sent."""
        user = caller(request)
        remove_webhook(webhook=get_webhook(user, webhook_id), actor=user.username)
        return Response(status=status.HTTP_204_NO_CONTENT)


class TestWebhook(ApiView):
    __test__ = False

    @describe("test_webhook", "account", {202: answers.Webhook}, problems=(404, 409), request=None)
    def post(self, request: Request, webhook_id: int) -> Response:
        """Send a ping. Its result is in `last_result` once `last_try_at` has changed."""
        webhook = get_webhook(caller(request), webhook_id)
        ping_webhook(webhook=webhook)
        return Response(_shown(webhook), status=status.HTTP_202_ACCEPTED)


def _chosen(user: User, choice: Choice) -> answers.Notifications:
    return {
        "mail": ordered(choice.mail),
        "webhook": ordered(choice.webhook),
        "weekly_digest": choice.weekly_digest,
        "address": user.email,
        "no_mail_because": why_no_mail(user) or None,
    }


def _shown(row: Webhook) -> answers.Webhook:
    failing = "failing" if row.failing_since else "working"
    return {
        "id": row.pk,
        "url": row.url,
        "state": "disabled" if row.disabled_at else failing,
        "reason": row.reason or None,
        "last_result": row.last_result or None,
        "last_try_at": moment(row.last_try_at),
        "last_success_at": moment(row.last_success_at),
        "failing_since": moment(row.failing_since),
        "created_at": moment(row.created_at),
    }
