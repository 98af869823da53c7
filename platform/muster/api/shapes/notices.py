"""What a user is told of, and their webhooks: never a secret but in the answer that makes one."""

from __future__ import annotations

from rest_framework import serializers

from muster.api.shapes.common import Choice, Flag, Integer, Moment, Shape, Text, values
from muster.jobs.spec.notify import Kind
from muster.notices.models import MAX_URL_CHARS

_KINDS = values(Kind)
WEBHOOK_STATES = [(name, name) for name in ("working", "failing", "disabled")]


class Notifications(Shape):
    """What the caller is told of, by channel."""

    mail = serializers.ListField(child=Choice(choices=_KINDS), help_text="The events that the caller gets mail about.")
    webhook = serializers.ListField(
        child=Choice(choices=_KINDS), help_text="The events that are posted to the caller's webhooks."
    )
    weekly_digest = Flag(help_text="Whether the caller gets a summary by mail each week.")
    address = Text(allow_blank=True, help_text="Where mail goes.")
    no_mail_because = Text(allow_null=True, help_text="Why no mail reaches the caller; null if it does.")


class NotificationChanges(Shape):
    """What is to be changed; what is not named stays as it is."""

    mail = serializers.ListField(
        required=False,
        child=Text(max_length=40),
        max_length=50,
        help_text="The events to send mail about; replaces the whole list.",
    )
    webhook = serializers.ListField(
        required=False,
        child=Text(max_length=40),
        max_length=50,
        help_text="The events to post to webhooks; replaces the whole list.",
    )
    weekly_digest = Flag(required=False, help_text="Whether to send a summary by mail each week.")


class NewWebhook(Shape):
    """A webhook to be made."""

    url = Text(
        max_length=MAX_URL_CHARS, help_text="http or https, to a public address or a network that operators allow."
    )


class Webhook(Shape):
    """Where notices are posted to, and how it stands with that."""

    id = Integer(help_text="The id of the webhook.")
    url = Text(help_text="The URL that events are posted to.")
    state = Choice(choices=WEBHOOK_STATES, help_text="Whether calls succeed, fail, or are no longer made.")
    reason = Text(allow_null=True, help_text="Why it is disabled.")
    last_result = Text(allow_null=True, help_text="What became of the last try.")
    last_try_at = Moment(allow_null=True, help_text="When the last call was tried; null if none was.")
    last_success_at = Moment(allow_null=True, help_text="When a call last succeeded; null if none has.")
    failing_since = Moment(
        allow_null=True, help_text="When calls began to fail; null if the last one succeeded or none was tried."
    )
    created_at = Moment(help_text="When the webhook was made.")


class WebhookWithSecret(Webhook):
    """A new webhook with the secret that its calls are signed with, which is shown this once only."""

    secret = Text(help_text="The secret that signs the calls.")


class WebhookList(Shape):
    """The caller's webhooks, oldest first."""

    results = Webhook(many=True, help_text="The webhooks.")
    next = Text(allow_null=True, help_text="Always null: the list comes whole.")
