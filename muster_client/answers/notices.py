"""A user's settings for notifications, and their webhooks. Only the answer that makes a webhook has its secret."""

from __future__ import annotations

from typing import Annotated, TypedDict

from muster_client.answers.terms import Moment, NoticeKind, WebhookState


class Notifications(TypedDict):
    """Events that the caller is notified of, by channel."""

    mail: Annotated[list[NoticeKind], "The events that the caller gets mail about."]
    webhook: Annotated[list[NoticeKind], "The events that are posted to the caller's webhooks."]
    weekly_digest: Annotated[bool, "Whether the caller gets a summary by mail each week."]
    address: Annotated[str, "The address for mail."]
    no_mail_because: Annotated[str | None, "Why no mail reaches the caller; null if it does."]


class Webhook(TypedDict):
    """A URL to which notifications are posted, and the state of the calls to it."""

    id: Annotated[int, "The id of the webhook."]
    url: Annotated[str, "The URL that events are posted to."]
    state: Annotated[WebhookState, "Whether calls succeed, fail, or are no longer made."]
    reason: Annotated[str | None, "Why it is disabled."]
    last_result: Annotated[str | None, "The result of the last call."]
    last_try_at: Annotated[Moment | None, "When the last call was tried; null if none was."]
    last_success_at: Annotated[Moment | None, "When a call last succeeded; null if none has."]
    failing_since: Annotated[
        Moment | None, "When calls began to fail; null if the last one succeeded or none was tried."
    ]
    created_at: Annotated[Moment, "When the webhook was made."]


class WebhookWithSecret(Webhook):
    """A new webhook with the secret that its calls are signed with, which is shown this once only."""

    secret: Annotated[str, "The secret that signs the calls."]


class WebhookList(TypedDict):
    """The caller's webhooks, oldest first."""

    results: Annotated[list[Webhook], "The webhooks."]
    next: Annotated[str | None, "Always null: the list has one page."]
