"""Sweeps: to be read."""

from __future__ import annotations

from django.contrib import admin

from muster.console.base import ModelAdmin, ReadOnlyMixin
from muster.jobs.models import JobGroup


@admin.register(JobGroup)
class JobGroupAdmin(ReadOnlyMixin, ModelAdmin[JobGroup]):
    """Sweeps of all tenants."""

    list_display = ["id", "name", "owner", "tenant", "vc", "state", "size", "parallel", "submitted_at", "reason"]
    list_filter = ["state", "pool", "tenant"]
    list_select_related = ["owner", "tenant", "vc"]
    search_fields = ["=id", "name", "=owner__username"]
    ordering = ["-id"]
    list_per_page = 50
    show_full_result_count = False
