"""Preferences of users for notices, their webhooks, and the mails that they got."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from muster.common.models import DatabaseNow, check, index, unique
from muster.events.models import EventReader

MAX_URL_CHARS = 1000


class Preferences(models.Model):
    """A user's preferences for notices, by channel. Who never chose has no row."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="notice_preferences"
    )
    mail = models.JSONField(help_text="Kinds that are told by mail.")
    webhook = models.JSONField(help_text="Kinds that are told by the user's webhooks.")
    weekly_digest = models.BooleanField(default=False)
    digest_through = models.DateField(null=True, help_text="The Monday up to which digests were sent.")

    class Meta:
        verbose_name_plural = "preferences"
        indexes = [index("digest_wanted", ["digest_through"], Q(weekly_digest=True))]

    def __str__(self) -> str:
        return f"what {self.user_id} wants to be told of"


class Webhook(models.Model):
    """An address of a user's to which notices are posted. Its secret is stored encrypted, and was shown once."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="webhooks")
    url = models.CharField(max_length=MAX_URL_CHARS)
    sealed_secret = models.TextField(editable=False)
    created_at = models.DateTimeField(db_default=DatabaseNow())
    disabled_at = models.DateTimeField(null=True, blank=True)
    disabled_by = models.CharField(max_length=150, blank=True, default="", help_text="Empty: by its failures.")
    reason = models.CharField(max_length=500, blank=True, default="", help_text="Why it is disabled.")
    failures = models.PositiveIntegerField(default=0, help_text="Tries since the last one that went well.")
    failing_since = models.DateTimeField(null=True, blank=True)
    not_before = models.DateTimeField(null=True, blank=True, help_text="When the next try may be, after a failure.")
    last_try_at = models.DateTimeField(null=True, blank=True)
    last_success_at = models.DateTimeField(null=True, blank=True)
    last_result = models.CharField(max_length=300, blank=True, default="")

    class Meta:
        constraints = [unique("webhook_once", ["user", "url"])]

    def __str__(self) -> str:
        return f"webhook {self.pk}"


class Notice(models.Model):
    """A line for a user's mail: told in a mail of its own, or waiting to be gathered with others.

    `due_at` is set while it waits. Rows are kept for as long as they decide what is told next.
    """

    id = models.BigAutoField(primary_key=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="notices", db_index=False)
    at = models.DateTimeField(db_default=DatabaseNow())
    kind = models.CharField(max_length=40)
    job_id = models.BigIntegerField()
    subject = models.CharField(max_length=300)
    line = models.CharField(max_length=500, blank=True, default="")
    signature = models.CharField(max_length=64, blank=True, default="", help_text="Of failures that are alike.")
    mail_id = models.UUIDField(null=True, help_text="The mail that told it.")
    told_at = models.DateTimeField(null=True)
    due_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            check(
                "notice_told_or_due",
                Q(told_at__isnull=False, mail_id__isnull=False, due_at__isnull=True)
                | Q(told_at__isnull=True, mail_id__isnull=True, due_at__isnull=False),
            )
        ]
        indexes = [
            index("notice_told", ["user", "told_at"], Q(told_at__isnull=False)),
            index("notice_due", ["due_at"], Q(due_at__isnull=False)),
            index("notice_alike", ["user", "signature", "told_at"], ~Q(signature="")),
        ]

    def __str__(self) -> str:
        return self.subject


class Reader(EventReader):
    """The last event that has been read for notices."""

    class Meta:
        constraints = [check("one_reader_of_events", Q(id=1))]
