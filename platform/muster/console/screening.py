"""Operators set here in which pool the jobs of another are screened, and see the results."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from muster.console.base import AuditedMixin, ModelAdmin, ReadOnlyMixin
from muster.screening.models import PoolScreening, ScreeningResult


@admin.register(PoolScreening)
class PoolScreeningAdmin(AuditedMixin, ModelAdmin[PoolScreening]):
    """Where and how the large jobs of a pool are screened. Deleting the row ends that: jobs that wait go on."""

    audit_type = "screening"
    list_display = ["pool", "screening_pool", "min_gpus", "minutes", "world", "max_wait_s", "trust_days", "tenant_gpus"]
    list_select_related = ["pool", "screening_pool"]
    ordering = ["pool__name"]
    fields = ["pool", "screening_pool", "min_gpus", "minutes", "world", "max_wait_s", "trust_days", "tenant_gpus"]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """The pool whose jobs are screened cannot be changed: another pool has a row of its own."""
        return [] if obj is None else ["pool"]


@admin.register(ScreeningResult)
class ScreeningResultAdmin(ReadOnlyMixin, ModelAdmin[ScreeningResult]):
    """The results of screening runs."""

    list_display = ["id", "job", "tenant", "pool", "verdict", "failure", "gpus_asked", "gpus", "ran_s", "at"]
    list_filter = ["verdict", "pool", "tenant"]
    list_select_related = ["job", "tenant", "pool"]
    search_fields = ["job__name", "failure"]
    raw_id_fields = ["job", "attempt"]
    ordering = ["-id"]
    show_full_result_count = False
