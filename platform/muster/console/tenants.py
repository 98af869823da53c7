"""Tenants with their members, and virtual clusters with quotas that the pool can keep."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

import muster.console.accounts  # noqa: F401  (a member is found by the page of users)
from muster.common.errors import Invalid
from muster.console.base import AuditedMixin, ModelAdmin, OperatorsMixin, TabularInline, actor
from muster.console.tenant_forms import (
    CapForm,
    CapFormSet,
    CommonQuotaForm,
    CommonQuotaFormSet,
    MemberForm,
    MemberFormSet,
    TreeNodeForm,
    add_tenant_form,
    quota_fields,
)
from muster.events.services import access_changed, wake_pool
from muster.tenants import edits
from muster.tenants.models import (
    Cap,
    CommonQuota,
    Membership,
    Organisation,
    RegistryCredentials,
    Tenant,
    TreeNode,
    VirtualCluster,
    Volume,
)
from muster.tenants.registries import (
    remove_registry,
    require_password,
    require_registry,
    require_username,
    store_registry,
)


class MembershipInline(OperatorsMixin, TabularInline[Membership, Tenant]):
    """The members of the tenant."""

    model = Membership
    form = MemberForm
    formset = MemberFormSet
    verbose_name, verbose_name_plural = "member", "members"
    fields = ["user", "username", "password", "role"]
    autocomplete_fields = ["user"]

    def get_extra(self, request: HttpRequest, obj: Any = None, **kwargs: Any) -> int:
        return 0 if obj is not None else 1


class CommonQuotaInline(OperatorsMixin, TabularInline[CommonQuota, Any]):
    """GPUs that an organisation or a tenant is promised itself; all below it may use them."""

    model = CommonQuota
    form = CommonQuotaForm
    formset = CommonQuotaFormSet
    verbose_name, verbose_name_plural = "common quota", "common quotas"
    rows_below = "quotas"


class CapInline(OperatorsMixin, TabularInline[Cap, Tenant]):
    """Limits on users of the tenant. Members are added before they get caps of their own."""

    model = Cap
    form = CapForm
    formset = CapFormSet
    rows_below = "caps"


class TreeNodeMixin(AuditedMixin):
    """A node of the tree of tenants: each save raises its version, and a save of an older version is refused."""

    def save_model(self, request: HttpRequest, obj: TreeNode, form: Any, change: bool) -> None:
        """Store what was edited, and of a new one who made it."""
        if not change:
            obj.changed_by = actor(request)
        super().save_model(request, obj, form, change)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Store the inlines, raise the version, and look at once who may start now."""
        super().save_related(request, form, formsets, change)  # type: ignore[misc]
        row = form.instance
        if change:
            edits.touch(type(row)._default_manager.get(pk=row.pk), actor=actor(request))
        for pool_id in [row.pool_id] if isinstance(row, VirtualCluster) else edits.pools_below(row):
            wake_pool(pool_id)


@admin.register(Organisation)
class OrganisationAdmin(TreeNodeMixin, ModelAdmin[Organisation]):
    """Organisations above tenants."""

    form = TreeNodeForm

    list_display = ["name", "parent", "weight"]
    list_select_related = ["parent"]
    search_fields = ["name"]
    ordering = ["name"]
    inlines = [CommonQuotaInline]
    kept_fields = ["name"]  # people and scripts know it

    class Media:
        js = ["muster/quota.js"]

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """The entered fields, and of a stored one the version that the page shows."""
        return ["name", "parent", "weight", *(["loaded_version"] if obj else [])]


@admin.register(Tenant)
class TenantAdmin(TreeNodeMixin, ModelAdmin[Tenant]):
    """Groups of people. A new one comes with its virtual cluster, quotas and members, all of them or none."""

    form = TreeNodeForm
    list_display = ["name", "organisation", "weight", "idle_action", "idle_for_s", "idle_binding", "created_at"]
    list_select_related = ["organisation"]
    search_fields = ["name"]
    ordering = ["name"]
    kept_fields = ["name", "created_at", "clusters"]

    class Media:
        js = ["muster/quota.js"]

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """The form, which for a new tenant has the virtual cluster and its quotas."""
        return super().get_form(request, obj, change, **kwargs, **({} if obj else {"form": add_tenant_form()}))

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """The needed fields first, then the rules for jobs."""
        if obj is None:
            first, cluster = ["name", "organisation", "weight"], ["pool", "vc_name", *quota_fields()]
        else:
            first = ["name", "organisation", "weight", "created_at", "loaded_version"]
            cluster = ["clusters"]
        jobs = ["wait_for_hardware", "screening", "idle_action", "idle_below", "idle_for_s", "idle_binding"]
        return [
            (None, {"fields": first}),
            ("Virtual cluster" if obj is None else "Virtual clusters", {"fields": cluster}),
            ("Jobs", {"fields": jobs, "classes": ["collapse"] if obj is None else []}),
        ]

    def get_inlines(self, request: HttpRequest, obj: Any) -> Any:
        """Members; of a stored tenant also its quotas and caps."""
        return [MembershipInline] if obj is None else [MembershipInline, CommonQuotaInline, CapInline]

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Store the tenant, and the virtual cluster of a new one."""
        super().save_model(request, obj, form, change)
        if not change:
            form.create_virtual_cluster(actor=actor(request))

    def save_formset(self, request: HttpRequest, form: forms.ModelForm[Any], formset: Any, change: bool) -> None:
        """Store new users and the roles, and have open streams recheck the access of their callers."""
        if isinstance(formset, MemberFormSet):
            formset.create_users(actor=actor(request))
        super().save_formset(request, form, formset, change)
        access_changed()

    @admin.display(description="Virtual clusters")
    def clusters(self, tenant: Tenant) -> str:
        """Links to the tenant's virtual clusters, with their quotas."""
        rows = [
            (reverse("admin:tenants_virtualcluster_change", args=[vc.pk]), vc.name, vc.pool.name, quotas_of(vc))
            for vc in tenant.virtual_clusters.filter(closed_at__isnull=True)
            .select_related("pool")
            .prefetch_related("quotas")
            .order_by("name")
        ]
        return format_html(
            '{} <a class="link" href="{}?tenant={}">Add a virtual cluster</a>',
            format_html_join("", '<a class="link" href="{}">{}</a> in pool {}: {}<br>', rows),
            reverse("admin:tenants_virtualcluster_add"),
            tenant.pk,
        )


class CredentialsForm(forms.ModelForm[RegistryCredentials]):
    """The form for a tenant's credentials. The password is never shown, so every edit brings one."""

    username = forms.CharField(max_length=200, widget=UnfoldAdminTextInputWidget)
    password = forms.CharField(
        strip=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text="A password or a token. Stored encrypted, and never shown again.",
    )

    class Meta:
        model = RegistryCredentials
        fields = ["username"]

    def clean(self) -> dict[str, Any]:
        """Each field by the rules that the services have."""
        values = dict(super().clean() or {})
        checks = {"host": require_registry, "username": require_username, "password": require_password}
        for name, check in checks.items():
            if values.get(name):
                try:
                    values[name] = check(values[name])
                except Invalid as error:
                    self.add_error(name, error.errors[0].message)
        return values


class AddCredentialsForm(CredentialsForm):
    """New credentials, with whose and where they are."""

    tenant = forms.ModelChoiceField(Tenant.objects.order_by("name"), widget=UnfoldAdminSelectWidget)
    host = forms.CharField(
        max_length=255,
        widget=UnfoldAdminTextInputWidget,
        label="Registry",
        help_text="As images name it: ghcr.io, docker.io or registry.example.org:5000.",
    )


@admin.register(RegistryCredentials)
class RegistryCredentialsAdmin(OperatorsMixin, ModelAdmin[RegistryCredentials]):
    """Credentials of tenants at registries. A row is replaced whole: stored again with a new password."""

    form, add_form = CredentialsForm, AddCredentialsForm
    list_display = ["registry", "tenant", "username", "changed_at", "changed_by"]
    list_filter = ["tenant"]
    list_select_related = ["tenant"]
    search_fields = ["registry__host", "tenant__name"]
    ordering = ["tenant__name", "registry"]
    kept_fields = ["tenant", "registry"]

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """The entered fields, and of stored credentials their tenant and registry."""
        return ["tenant", "host" if obj is None else "registry", "username", "password"]

    def save_model(self, request: HttpRequest, obj: RegistryCredentials, form: Any, change: bool) -> None:
        """Store what was entered, in the place of what the tenant had for that registry."""
        given = form.cleaned_data
        row = store_registry(
            tenant=obj.tenant if change else given["tenant"],
            registry=obj.registry_id if change else given["host"],
            username=given["username"],
            password=given["password"],
            actor=actor(request),
        )
        obj.pk, obj._state.adding = row.pk, False
        obj.tenant, obj.registry_id = row.tenant, row.registry_id

    def delete_model(self, request: HttpRequest, obj: RegistryCredentials) -> None:
        remove_registry(credentials=obj, actor=actor(request))


@admin.register(Volume)
class VolumeAdmin(AuditedMixin, ModelAdmin[Volume]):
    """Folders of the nodes that jobs may mount. Jobs that run keep what they have mounted, whatever is edited."""

    audit_type = "volume"
    list_display = ["name", "tenant", "vc", "path", "writable"]
    list_filter = ["tenant", "writable"]
    list_select_related = ["tenant", "vc"]
    search_fields = ["name", "path", "tenant__name"]
    ordering = ["tenant__name", "name"]
    fields = ["name", "tenant", "vc", "path", "writable"]
    kept_fields = ["name", "tenant"]  # specs know its name


def quotas_of(vc: VirtualCluster) -> str:
    """The quotas of a virtual cluster in one line."""
    return ", ".join(f"{quota.gpus} {quota.gpu_type}" for quota in vc.quotas.all()) or "none"
