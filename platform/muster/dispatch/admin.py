"""Pools, whose policies are known here, and the record of the scheduling cycles."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from muster.dispatch.models import Cycle
from muster.events.admin_base import AuditedMixin, ModelAdmin, ReadOnlyMixin
from muster.events.services import wake_pool
from muster.fleet.models import Pool
from scheduler.guard import GUARDS
from scheduler.placement import PLACEMENTS
from scheduler.policies import POLICIES
from scheduler.registry import ConfigError, Registry

_PLUGINS: dict[str, Registry[Any]] = {"policy": POLICIES, "placement": PLACEMENTS, "guard": GUARDS}
# Each of these waits for the one before it.
_TIMERS_IN_ORDER = ("beat_s", "suspect_after_s", "unreachable_after_s", "stop_after_s")


if TYPE_CHECKING:
    PoolFields = forms.ModelForm[Pool]
else:
    PoolFields = forms.ModelForm


class PoolForm(PoolFields):
    """A pool whose plug-ins exist and take the parameters that are given."""

    class Meta:
        model = Pool
        exclude: list[str] = []

    def clean(self) -> dict[str, Any]:
        """Refuses an unknown plug-in or parameter by name, and timers in the wrong order."""
        data = super().clean() or {}
        for kind, registry in _PLUGINS.items():
            name, params = data.get(kind), data.get(f"{kind}_params")
            if name is None or params is None:
                continue
            if name not in registry.names:
                self.add_error(kind, f"There is {', '.join(registry.names)}.")
            elif not isinstance(params, dict):
                self.add_error(f"{kind}_params", "Write an object, such as {}.")
            else:
                self._check_params(kind, name, params)
        self._check_timers(data)
        return data

    def _check_params(self, kind: str, name: str, params: dict[str, Any]) -> None:
        try:
            _PLUGINS[kind].make(name, params)
        except ConfigError as error:
            self.add_error(f"{kind}_params", str(error))

    def _check_timers(self, data: dict[str, Any]) -> None:
        for earlier, later in pairwise(_TIMERS_IN_ORDER):
            first, second = data.get(earlier), data.get(later)
            if first is not None and second is not None and second < first:
                self.add_error(later, f"It cannot be shorter than {earlier}, which is {first:g}.")


@admin.register(Pool)
class PoolAdmin(AuditedMixin, ModelAdmin[Pool]):
    """Nodes that are scheduled together."""

    form = PoolForm
    list_display = ["name", "policy", "placement", "guard"]
    search_fields = ["name"]
    ordering = ["name"]
    fieldsets = [
        (None, {"fields": ["name"]}),
        (
            "Scheduling",
            {"fields": ["policy", "policy_params", "placement", "placement_params", "guard", "guard_params"]},
        ),
        ("Jobs", {"fields": ["cpus_per_gpu", "memory_mib_per_gpu", "max_grace_s", "log_max_bytes_per_job"]}),
        (
            "Agents",
            {
                "fields": [
                    "beat_s",
                    "suspect_after_s",
                    "unreachable_after_s",
                    "stop_after_s",
                    "fence_margin_s",
                    "claim_timeout_s",
                    "orphan_grace_s",
                ]
            },
        ),
    ]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """A name stays."""
        return [] if obj is None else ["name"]

    def save_model(self, request: HttpRequest, obj: Pool, form: forms.ModelForm[Pool], change: bool) -> None:
        """Store the pool, and let the next cycle run by what is new."""
        super().save_model(request, obj, form, change)
        wake_pool(obj.pk)


@admin.register(Cycle)
class CycleAdmin(ReadOnlyMixin, ModelAdmin[Cycle]):
    """What the scheduler did."""

    list_display = ["id", "pool", "started_at", "trigger", "waiting", "placed", "held", "refused", "milliseconds"]
    list_filter = ["pool", "trigger"]
    list_select_related = ["pool"]
    ordering = ["-id"]
    list_per_page = 50
    show_full_result_count = False
    exclude = ["snapshot", "plan"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Cycle]:
        """The rows without what they keep for a replay."""
        return super().get_queryset(request).defer("snapshot", "plan")

    @admin.display(description="ms")
    def milliseconds(self, cycle: Cycle) -> str:
        """How long it took."""
        return f"{cycle.duration_ms:.1f}"
