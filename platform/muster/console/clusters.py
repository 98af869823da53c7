"""The admin's pages of virtual clusters: their quotas, and their deletion with what waits in them."""

from __future__ import annotations

from typing import Any, cast

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from unfold.widgets import UnfoldAdminSelectWidget

from muster.accounts.models import User
from muster.clusters.closing import close_virtual_cluster, merge_targets
from muster.console.base import ModelAdmin, OperatorsMixin, RefusalsMixin, TabularInline
from muster.console.tenant_forms import QuotaForm, QuotaFormSet, TreeNodeForm
from muster.console.tenants import TreeNodeMixin, quotas_of
from muster.tenants.models import Organisation, Quota, VirtualCluster


class MergeForm(forms.Form):
    """The virtual cluster that gets the waiting jobs of a deleted one."""

    merge_into = forms.ChoiceField(
        required=False,
        widget=UnfoldAdminSelectWidget,
        help_text="The virtual cluster of the same tenant and pool that gets the waiting jobs.",
    )

    def __init__(self, *, vc: VirtualCluster) -> None:
        super().__init__()
        names = merge_targets(vc).order_by("name").values_list("name", flat=True)
        cast(forms.ChoiceField, self.fields["merge_into"]).choices = [("", "none"), *((name, name) for name in names)]


class QuotaInline(OperatorsMixin, TabularInline[Quota, VirtualCluster]):
    """The quotas of a virtual cluster by GPU type."""

    model = Quota
    form = QuotaForm
    formset = QuotaFormSet
    rows_below = "quotas"


@admin.register(VirtualCluster)
class VirtualClusterAdmin(RefusalsMixin, TreeNodeMixin, ModelAdmin[VirtualCluster]):
    """Tenants' shares of pools."""

    form = TreeNodeForm
    audit_type = "virtual_cluster"
    delete_confirmation_template = "admin/jobs/delete_virtual_cluster.html"
    list_display = ["name", "organisation", "tenant", "pool", "weight", "quota"]
    list_filter = ["pool", "tenant"]
    list_select_related = ["tenant__organisation", "pool"]
    search_fields = ["name", "tenant__name"]
    ordering = ["name"]
    inlines = [QuotaInline]
    kept_fields = ["name", "tenant", "pool", "organisation"]

    class Media:
        js = ["muster/quota.js"]

    def get_queryset(self, request: HttpRequest) -> Any:
        """Those that are not deleted, with their quotas for the list."""
        return super().get_queryset(request).filter(closed_at__isnull=True).prefetch_related("quotas")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Its tenant, pool and organisation, and of a stored one the version that the page shows."""
        shown = [] if obj is None else ["organisation", "loaded_version"]
        return ["name", "tenant", "pool", "weight", *shown]

    def get_actions(self, request: HttpRequest) -> Any:
        """Each is deleted by itself, because its waiting jobs may have to move."""
        return {name: found for name, found in super().get_actions(request).items() if name != "delete_selected"}

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """The virtual cluster alone: ended jobs keep its row, and the service says what hinders it."""
        return [str(vc) for vc in objs], {}, set(), []

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> Any:
        """The page that asks where waiting jobs go."""
        vc = self.get_object(request, object_id)
        form = None if vc is None else MergeForm(vc=vc)
        return super().delete_view(request, object_id, {"form": form, **(extra_context or {})})

    def delete_model(self, request: HttpRequest, obj: VirtualCluster) -> None:
        merge_into = request.POST.get("merge_into") or None
        close_virtual_cluster(user=cast(User, request.user), vc=obj, merge_into=merge_into)

    @admin.display(description="Organisation", ordering="tenant__organisation__name", empty_value="none")
    def organisation(self, vc: VirtualCluster) -> Organisation | None:
        return vc.tenant.organisation

    @admin.display(description="Quota")
    def quota(self, vc: VirtualCluster) -> str:
        return quotas_of(vc)
