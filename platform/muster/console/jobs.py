"""Jobs, their attempts, allocations, groups and shells: to be read; a job can be cancelled."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html

from muster.accounts.models import User
from muster.common.errors import MusterError
from muster.console.base import ModelAdmin, ReadOnlyMixin, RecordsMixin, TabularInline
from muster.jobs.models import Allocation, Attempt, Job, JobGroup
from muster.jobs.services import cancel_job
from muster.shells.models import Shell
from scheduler.model.codec import to_json


@admin.register(Job)
class JobAdmin(RecordsMixin, ModelAdmin[Job]):
    """Jobs of all tenants."""

    list_display = [
        "id",
        "name",
        "owner",
        "tenant",
        "vc",
        "state",
        "hold_reason",
        "gpus_total",
        "submitted_at",
        "reason",
    ]
    list_filter = ["state", "pool", "tenant", "hold_reason", "reason"]
    list_select_related = ["owner", "tenant", "vc"]
    search_fields = ["=id", "name", "=owner__username"]
    exclude = ["spec", "hold", "request"]
    readonly_fields = ["request_text", "spec_text", "hold_text"]
    actions = ["cancel"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Job]:
        """The rows; a list does not need the specs."""
        jobs = super().get_queryset(request)
        match = request.resolver_match
        return jobs.defer("spec") if match and str(match.url_name).endswith("changelist") else jobs

    @admin.display(description="Request")
    def request_text(self, job: Job) -> str:
        return _pre(to_json(job.request))

    @admin.display(description="Spec")
    def spec_text(self, job: Job) -> str:
        return _pre(job.spec)

    @admin.display(description="Hold")
    def hold_text(self, job: Job) -> str:
        return _pre(job.hold) if job.hold else "-"

    @admin.action(description="Cancel")
    def cancel(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        user = request.user
        if not isinstance(user, User):
            return
        for job in queryset:
            try:
                cancel_job(user=user, job=job)
            except MusterError as error:
                self.message_user(request, error.detail, messages.ERROR)
            else:
                self.message_user(request, f"Job {job.pk} is being cancelled.")


class AllocationInline(ReadOnlyMixin, TabularInline[Allocation, Attempt]):
    """The ranks of an attempt."""

    model = Allocation
    fields = ["rank", "node", "state", "observed", "exit_code", "end_reason", "end_detail", "claimed_at", "ended_at"]
    ordering = ["rank"]
    extra = 0


@admin.register(Attempt)
class AttemptAdmin(RecordsMixin, ModelAdmin[Attempt]):
    """Tries at running jobs."""

    list_display = ["id", "job", "number", "state", "reason", "exit_code", "placed_at", "running_at", "ended_at"]
    list_filter = ["state", "reason"]
    list_select_related = ["job"]
    search_fields = ["=id", "=job__id"]
    exclude = ["request"]
    readonly_fields = ["request_text"]
    inlines = [AllocationInline]

    @admin.display(description="Request")
    def request_text(self, attempt: Attempt) -> str:
        return _pre(to_json(attempt.request))


@admin.register(Allocation)
class AllocationAdmin(RecordsMixin, ModelAdmin[Allocation]):
    """Allocations of ranks on nodes."""

    list_display = ["id", "attempt", "rank", "node", "state", "observed", "gpus", "cpus", "memory_mib", "claimed_at"]
    list_filter = ["state", "observed", "node__pool"]
    list_select_related = ["attempt", "node"]
    search_fields = ["=id", "=attempt__job__id", "node__name"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Allocation]:
        return super().get_queryset(request).prefetch_related("claims__gpu")

    @admin.display(description="GPUs")
    def gpus(self, allocation: Allocation) -> str:
        """The GPUs that it holds, or has held."""
        return ", ".join(sorted(str(claim.gpu) for claim in allocation.claims.all())) or "-"


@admin.register(JobGroup)
class JobGroupAdmin(RecordsMixin, ModelAdmin[JobGroup]):
    """Sweeps and arrays of all tenants."""

    list_display = [
        "id",
        "kind",
        "name",
        "owner",
        "tenant",
        "vc",
        "state",
        "size",
        "parallel",
        "submitted_at",
        "reason",
    ]
    list_filter = ["kind", "state", "pool", "tenant"]
    list_select_related = ["owner", "tenant", "vc"]
    search_fields = ["=id", "name", "=owner__username"]


@admin.register(Shell)
class ShellAdmin(RecordsMixin, ModelAdmin[Shell]):
    """Shells in running jobs."""

    list_display = ["id", "user", "job", "state", "reason", "address", "requested_at", "opened_at", "closed_at"]
    list_filter = ["state", "reason"]
    list_select_related = ["user", "job"]
    search_fields = ["user__username", "=job__id"]
    exclude = ["token_digest", "command", "api_token"]


def _pre(value: Any) -> str:
    return format_html('<pre class="whitespace-pre-wrap">{}</pre>', json.dumps(value, indent=2, ensure_ascii=False))
