"""Operators say here in which pool the jobs of another are tried first, and see what came of it."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from muster.events.admin_base import AuditedMixin, ModelAdmin, ReadOnlyMixin
from muster.screening.models import PoolScreening, Trial


@admin.register(PoolScreening)
class PoolScreeningAdmin(AuditedMixin, ModelAdmin[PoolScreening]):
    """Where and how the large jobs of a pool are tried first. To stop that, the row is deleted: who waits goes on."""

    audit_type = "screening"
    list_display = ["pool", "screening_pool", "min_gpus", "minutes", "world", "max_wait_s", "trust_days", "tenant_gpus"]
    list_select_related = ["pool", "screening_pool"]
    ordering = ["pool__name"]
    fields = ["pool", "screening_pool", "min_gpus", "minutes", "world", "max_wait_s", "trust_days", "tenant_gpus"]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """Whose jobs are tried stays: for another pool there is another row."""
        return [] if obj is None else ["pool"]


@admin.register(Trial)
class TrialAdmin(ReadOnlyMixin, ModelAdmin[Trial]):
    """What came of each trial."""

    list_display = ["id", "job", "tenant", "pool", "verdict", "failure", "gpus_asked", "gpus", "ran_s", "at"]
    list_filter = ["verdict", "pool", "tenant"]
    list_select_related = ["job", "tenant", "pool"]
    search_fields = ["job__name", "failure"]
    raw_id_fields = ["job", "attempt"]
    ordering = ["-id"]
    show_full_result_count = False
