"""Tenants with their members, and virtual clusters with quotas that the pool can keep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.forms import BaseInlineFormSet, BaseModelFormSet
from django.http import HttpRequest

from muster.events.admin_base import AuditedMixin, ModelAdmin, OperatorsMixin, TabularInline
from muster.events.services import wake_pool
from muster.fleet.models import Pool
from muster.tenants.models import Membership, Quota, Tenant, VirtualCluster
from muster.tenants.services import quota_problem


class MembershipInline(OperatorsMixin, TabularInline[Membership, Tenant]):
    """Who belongs to the tenant."""

    model = Membership
    extra = 0
    autocomplete_fields = ["user"]


@admin.register(Tenant)
class TenantAdmin(AuditedMixin, ModelAdmin[Tenant]):
    """Groups of people."""

    list_display = ["name", "weight", "created_at"]
    search_fields = ["name"]
    ordering = ["name"]
    fields = ["name", "weight"]
    inlines = [MembershipInline]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """A name stays: people and scripts know it."""
        return [] if obj is None else ["name"]


if TYPE_CHECKING:
    QuotaRows = BaseInlineFormSet[Quota, VirtualCluster, forms.ModelForm[Quota]]
else:
    QuotaRows = BaseInlineFormSet


class QuotaFormSet(QuotaRows):
    """Quotas that the pool can keep, all at once with those of its other virtual clusters."""

    def clean(self) -> None:
        """Refuses a quota with the reason, at its own row."""
        super().clean()
        vc = self.instance
        if vc.pool_id is None:
            return
        # Two operators who edit quotas of one pool must not each see the other's old values.
        Pool.objects.select_for_update(no_key=True).get(pk=vc.pool_id)
        for form in self.forms:
            row = getattr(form, "cleaned_data", {})
            if row.get("DELETE") or not row.get("gpu_type") or row.get("gpus") is None:
                continue
            # No two rows have the same type: the check above refuses that. What is stored of this virtual cluster
            # does not count, so a row is judged by what it asks for, whatever the others give up.
            problem = quota_problem(vc=vc, gpu_type=row["gpu_type"], gpus=row["gpus"])
            if problem:
                form.add_error("gpus", problem)


class QuotaInline(OperatorsMixin, TabularInline[Quota, VirtualCluster]):
    """How many GPUs of each type the virtual cluster may hold."""

    model = Quota
    formset = QuotaFormSet
    extra = 0


@admin.register(VirtualCluster)
class VirtualClusterAdmin(AuditedMixin, ModelAdmin[VirtualCluster]):
    """Tenants' shares of pools."""

    audit_type = "virtual_cluster"
    list_display = ["name", "tenant", "pool", "quota"]
    list_filter = ["pool", "tenant"]
    list_select_related = ["tenant", "pool"]
    search_fields = ["name", "tenant__name"]
    ordering = ["name"]
    fields = ["name", "tenant", "pool"]
    inlines = [QuotaInline]

    def get_queryset(self, request: HttpRequest) -> Any:
        """The rows with their quotas, for the list."""
        return super().get_queryset(request).prefetch_related("quotas")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """Jobs know all of these, so they stay."""
        return [] if obj is None else ["name", "tenant", "pool"]

    def save_formset(
        self, request: HttpRequest, form: forms.ModelForm[Any], formset: BaseModelFormSet[Any, Any], change: bool
    ) -> None:
        """Store the quotas, and look at once who may start now."""
        super().save_formset(request, form, formset, change)
        wake_pool(form.instance.pool_id)

    @admin.display(description="Quota")
    def quota(self, vc: VirtualCluster) -> str:
        """The quotas in one line."""
        return ", ".join(f"{quota.gpus} {quota.gpu_type}" for quota in vc.quotas.all()) or "none"
