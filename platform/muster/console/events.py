"""The record of what happened: to be read, never to be written by hand."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import admin

from muster.console.base import ModelAdmin, ReadOnlyMixin, RecordsMixin
from muster.events.labels import words
from muster.events.models import AuditEntry, Event, Outbox, Restore

admin.site.index_template = "admin/start.html"


@admin.register(Event)
class EventAdmin(RecordsMixin, ModelAdmin[Event]):
    """Events of jobs, attempts and nodes."""

    list_display = ["id", "at", "kind", "actor", "job_id", "node_id"]
    search_fields = ["=kind", "=actor", "=job_id"]


@admin.register(AuditEntry)
class AuditEntryAdmin(RecordsMixin, ModelAdmin[AuditEntry]):
    """Audit entries: actor, action, reason and changes."""

    list_display = ["at", "actor", "act", "what", "reason", "was", "became", "address"]
    list_filter = ["object_type", "action"]
    search_fields = ["actor", "object_id", "=address"]

    @admin.display(description="Action", ordering="action")
    def act(self, entry: AuditEntry) -> str:
        return words(entry.action)

    @admin.display(description="Object", ordering="object_type")
    def what(self, entry: AuditEntry) -> str:
        return f"{words(entry.object_type)} {entry.object_id}"

    @admin.display(description="Reason")
    def reason(self, entry: AuditEntry) -> str:
        """The reason that the actor gave; of a change of a reason, the new one."""
        return str((entry.after or {}).get("reason") or "")

    @admin.display(description="Before")
    def was(self, entry: AuditEntry) -> str:
        return _in_words(entry.before)

    @admin.display(description="After")
    def became(self, entry: AuditEntry) -> str:
        return _in_words(entry.after)


def _in_words(state: dict[str, Any] | None) -> str:
    """Columns and their values in one line; the reason has a column of its own."""
    return ", ".join(
        f"{words(name)}: {value if isinstance(value, str) else json.dumps(value)}"
        for name, value in (state or {}).items()
        if name != "reason"
    )


@admin.register(Restore)
class RestoreAdmin(ReadOnlyMixin, ModelAdmin[Restore]):
    """Restores from a backup, and what agents reported of jobs that began after it."""

    list_display = ["backup_at", "at", "resumed_at"]
    ordering = ["-id"]


class _Delivered(admin.SimpleListFilter):
    title = "state"
    parameter_name = "state"

    def lookups(self, request: Any, model_admin: Any) -> list[tuple[str, str]]:
        return [("waiting", "waiting"), ("delivered", "delivered"), ("given up", "given up")]

    def queryset(self, request: Any, queryset: Any) -> Any:
        if self.value() is None:
            return queryset
        if self.value() == "given up":
            return queryset.filter(dropped_at__isnull=False)
        return queryset.filter(delivered_at__isnull=self.value() == "waiting", dropped_at__isnull=True)


@admin.register(Outbox)
class OutboxAdmin(ReadOnlyMixin, ModelAdmin[Outbox]):
    """Side effects, and those that did not work yet."""

    list_display = ["id", "topic", "created_at", "due_at", "tries", "last_error", "delivered_at", "dropped_at"]
    list_filter = [_Delivered, "topic"]
    ordering = ["-id"]
    show_full_result_count = False
