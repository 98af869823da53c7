"""The record of what happened: to be read, never to be written by hand."""

from __future__ import annotations

from typing import Any

from django.contrib import admin

from muster.events.admin_base import ModelAdmin, ReadOnlyMixin
from muster.events.models import AuditEntry, Event, Outbox, Restore


@admin.register(Event)
class EventAdmin(ReadOnlyMixin, ModelAdmin[Event]):
    """What happened to jobs, attempts and nodes."""

    list_display = ["id", "at", "kind", "actor", "job_id", "node_id"]
    search_fields = ["=kind", "=actor", "=job_id"]
    ordering = ["-id"]
    list_per_page = 50
    show_full_result_count = False


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyMixin, ModelAdmin[AuditEntry]):
    """Who did what."""

    list_display = ["id", "at", "actor", "action", "object_type", "object_id", "address"]
    list_filter = ["object_type", "action"]
    search_fields = ["actor", "object_id", "=address"]
    ordering = ["-id"]
    list_per_page = 50
    show_full_result_count = False


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
