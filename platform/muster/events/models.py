"""Event rows, audit rows and the outbox."""

from __future__ import annotations

from django.db import models

from muster.common.models import CurrentTransactionId, DatabaseNow, index


class Event(models.Model):
    """One thing that happened, written in the transaction that made it happen.

    Readers that follow events order them by (tx, id) and read only below the oldest running transaction:
    ids alone are handed out before their rows are visible, and a reader of ids loses rows that commit late.
    """

    id = models.BigAutoField(primary_key=True)
    tx = models.BigIntegerField(db_default=CurrentTransactionId())
    at = models.DateTimeField(db_default=DatabaseNow())
    kind = models.CharField(max_length=64)
    actor = models.CharField(max_length=200)
    tenant_id = models.BigIntegerField(null=True)
    job_id = models.BigIntegerField(null=True)
    node_id = models.BigIntegerField(null=True)
    data = models.JSONField(default=dict)

    class Meta:
        indexes = [
            index("event_order", ["tx", "id"]),
            index("event_of_job", ["job_id", "tx", "id"], models.Q(job_id__isnull=False)),
            index("event_of_node", ["node_id", "id"], models.Q(node_id__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"{self.kind} by {self.actor}"


class Restore(models.Model):
    """A restore of the database from a backup. `muster.dispatch.restore_pause` places no job before `resumed_at`."""

    at = models.DateTimeField(db_default=DatabaseNow(), help_text="When no agent's call could be answered any more.")
    backup_at = models.DateTimeField(help_text="The moment that the backup shows.")
    nodes_known = models.BooleanField(
        help_text="Whether an operator said that no agent joined after the backup, so that all nodes are known."
    )
    last_job = models.BigIntegerField(help_text="The highest id of a job that may have been given before the restore.")
    last_uid = models.BigIntegerField(help_text="The highest uid that may have been given before the restore.")
    unknown = models.JSONField(
        default=list, help_text="The allocations that agents reported and that began after the backup."
    )
    resumed_at = models.DateTimeField(null=True, help_text="When jobs were placed again.")

    def __str__(self) -> str:
        return f"restore of the backup of {self.backup_at:%Y-%m-%d %H:%M:%S} UTC"


class AuditEntry(models.Model):
    """A privileged act: who did what to which object, and how it looked before and after. Rows never change."""

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField(db_default=DatabaseNow())
    actor = models.CharField(max_length=200)
    action = models.CharField(max_length=64)
    object_type = models.CharField(max_length=64)
    object_id = models.CharField(max_length=200)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    address = models.GenericIPAddressField(null=True, help_text="Where the request came from; null: from no request.")

    class Meta:
        verbose_name_plural = "audit entries"
        indexes = [index("audit_of_object", ["object_type", "object_id", "-id"])]

    def __str__(self) -> str:
        return f"{self.actor} {self.action} {self.object_type} {self.object_id}"


class Outbox(models.Model):
    """A side effect that must follow a write: stored with the write, carried out after it, at least once."""

    id = models.BigAutoField(primary_key=True)
    topic = models.CharField(max_length=64)
    payload = models.JSONField()
    created_at = models.DateTimeField(db_default=DatabaseNow())
    due_at = models.DateTimeField(db_default=DatabaseNow())
    tries = models.PositiveIntegerField(default=0)
    last_error = models.TextField(default="", blank=True)
    delivered_at = models.DateTimeField(null=True)
    give_up_at = models.DateTimeField(null=True, blank=True, help_text="After it a failure is final; null: never.")
    dropped_at = models.DateTimeField(null=True, blank=True, help_text="When it was given up.")

    class Meta:
        verbose_name_plural = "outbox"
        indexes = [
            index("outbox_waiting", ["due_at", "topic"], models.Q(delivered_at__isnull=True, dropped_at__isnull=True)),
            index(
                "outbox_over", ["created_at"], models.Q(delivered_at__isnull=False) | models.Q(dropped_at__isnull=False)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.topic} {self.pk}"


class EventReader(models.Model):
    """The place up to which events have been read; one row."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    tx = models.BigIntegerField()
    event_id = models.BigIntegerField()

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"at {self.tx}, {self.event_id}"
