"""Who was in which job, to be read."""

from __future__ import annotations

from django.contrib import admin

from muster.console.base import ModelAdmin, ReadOnlyMixin
from muster.shells.models import Shell


@admin.register(Shell)
class ShellAdmin(ReadOnlyMixin, ModelAdmin[Shell]):
    """Shells in running jobs."""

    list_display = ["id", "user", "job", "state", "reason", "address", "requested_at", "opened_at", "closed_at"]
    list_filter = ["state", "reason"]
    list_select_related = ["user", "job"]
    search_fields = ["user__username", "=job__id"]
    ordering = ["-id"]
    list_per_page = 50
    show_full_result_count = False
    exclude = ["token_digest", "command", "api_token"]
