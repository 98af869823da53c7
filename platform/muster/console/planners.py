"""Admin pages of planners: the settings by which each decides, and its virtual clusters."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.widgets import UnfoldAdminSelectMultipleWidget, UnfoldAdminSelectWidget

from muster.console.base import ModelAdmin, OperatorsMixin, actor
from muster.dispatch.config.planners import KINDS, SETTINGS, delete_planner, planner_errors, save_planner
from muster.dispatch.config.plugins import KINDS as PLUGINS
from muster.dispatch.config.settings import fallback_of
from muster.dispatch.models import Planner
from muster.tenants.models import VirtualCluster


class ClustersField(forms.ModelMultipleChoiceField[VirtualCluster]):
    """Virtual clusters, with their pools and the planners that have them now."""

    def label_from_instance(self, obj: VirtualCluster) -> str:
        """The name, the pool and the planner."""
        planned = getattr(obj, "planned_by", None)
        planner = "default planner" if planned is None else f"planner {planned.planner.name}"
        return f"{obj.name} (pool {obj.pool.name}, {planner})"


class PlannerForm(forms.ModelForm[Planner]):
    """A planner whose plug-ins exist and whose virtual clusters are in its pool."""

    virtual_clusters = ClustersField(
        VirtualCluster.objects.select_related("pool", "planned_by__planner").order_by("pool__name", "name"),
        required=False,
        widget=UnfoldAdminSelectMultipleWidget,
        help_text="It decides on their jobs from its next cycle on. Another planner of theirs loses them. Jobs of one "
        "planner preempt no jobs of another one, except where the quota admission calls GPUs back.",
    )

    class Meta:
        model = Planner
        fields = ["pool", "name", *SETTINGS, "all_or_nothing"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for kind in KINDS:
            choices = [(name, name) for name in PLUGINS[kind].names]
            self.fields[kind] = forms.ChoiceField(choices=choices, widget=UnfoldAdminSelectWidget)
        if self.instance.pk:
            self.initial["virtual_clusters"] = list(self.instance.clusters.values_list("vc_id", flat=True))

    def clean(self) -> dict[str, Any]:
        """Name wrong parameters, and virtual clusters of other pools."""
        data = super().clean() or {}
        if not self.errors:
            pool = data["pool"] if self.instance.pk is None else self.instance.pool
            name = data.get("name", self.instance.name)
            planner = Planner(pool=pool, name=name, **{name: data[name] for name in SETTINGS})
            for error in planner_errors(planner, data["virtual_clusters"]):
                field = error.field.partition(".")[0]
                self.add_error(field if field in self.fields else None, error.message)
        return data


class PlannerAdmin(OperatorsMixin, ModelAdmin[Planner]):
    """Policies that decide on some virtual clusters of a pool."""

    form = PlannerForm
    list_display = ["name", "pool", "policy", "placement", "all_or_nothing", "clusters_of", "decides_by"]
    list_filter = ["pool"]
    list_select_related = ["pool"]
    search_fields = ["name"]
    ordering = ["pool__name", "name"]
    kept_fields = ["pool", "name", "decides_by"]  # cycle records name it

    def get_queryset(self, request: HttpRequest) -> QuerySet[Planner]:
        return super().get_queryset(request).prefetch_related("clusters__vc")

    def save_model(self, request: HttpRequest, obj: Planner, form: forms.ModelForm[Planner], change: bool) -> None:
        """Store the planner and its virtual clusters; a fallback of it ends."""
        save_planner(planner=obj, virtual_clusters=form.cleaned_data["virtual_clusters"], actor=actor(request))

    def delete_model(self, request: HttpRequest, obj: Planner) -> None:
        """Delete the planner and say who decides now."""
        names = self.clusters_of(obj)
        delete_planner(planner=obj, actor=actor(request))
        if names:
            text = f"The default planner of pool {obj.pool.name} decides on {names} from its next cycle on."
            self.message_user(request, text, messages.WARNING)

    @admin.display(description="Virtual clusters")
    def clusters_of(self, planner: Planner) -> str:
        return ", ".join(sorted(one.vc.name for one in planner.clusters.all()))

    @admin.display(description="Decides by")
    def decides_by(self, planner: Planner) -> str:
        """Its policy, or its fallback with the time and the reason."""
        fallback = fallback_of(planner.pool, planner)
        if fallback is None:
            return planner.policy
        return f"{fallback['config']['policy']} since {fallback['since']}, because its own failed: {fallback['why']}"
