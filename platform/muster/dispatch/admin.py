"""Admin pages of pools, with their policies, and of scheduling cycles."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString

from muster.dispatch.admin_planners import PlannerAdmin
from muster.dispatch.decided_page import decided_page
from muster.dispatch.forms import PoolForm, field_names, needs_names, pool_form
from muster.dispatch.models import Cycle, Lane, Planner, Target
from muster.dispatch.plugins import KINDS, objections
from muster.dispatch.settings import decide_again, fallback_of, forget_fallback
from muster.events.admin_base import AuditedMixin, ModelAdmin, ReadOnlyMixin, actor
from muster.fleet.models import Pool
from scheduler.engine.cycle import config_from_dict

_JOBS = [
    "cpus_per_gpu",
    "memory_mib_per_gpu",
    "max_grace_s",
    "log_max_bytes_per_job",
    "offer_lease_s",
    "shells",
    "keep_failed_max_s",
]
_CONTAINERS = ["gang_network", "infiniband", "mount_roots"]
_AGENTS = [
    "beat_s",
    "suspect_after_s",
    "unreachable_after_s",
    "stop_after_s",
    "fence_margin_s",
    "claim_timeout_s",
    "orphan_grace_s",
    "strike_half_life_s",
    "black_hole_jobs",
    "black_hole_s",
]
_CHECKS = ["check_gpus", "check_every_s", "check_s_per_day", "check_release"]


admin.site.register(Planner, PlannerAdmin)


@admin.register(Pool)
class PoolAdmin(AuditedMixin, ModelAdmin[Pool]):
    """Nodes that are scheduled together."""

    form = PoolForm
    list_display = ["name", "policy", "placement", "admission", "decides_by", "silent_since"]
    search_fields = ["name"]
    ordering = ["name"]
    actions = ["try_again"]

    @property
    def conditional_fields(self) -> dict[str, str]:
        """The parameters of a plug-in, and what a policy needs to know, are shown while it is selected."""
        needs = {name: f"policy == '{policy}'" for name, policy in needs_names().items()}
        return needs | {name: f"{kind} == '{plugin}'" for kind in KINDS for name, plugin in field_names(kind).items()}

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """The form with a field for each parameter of each installed plug-in."""
        return super().get_form(request, obj, change, **{**kwargs, "form": pool_form()})

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """The plug-ins, each kind with its parameters, and the rest."""
        notes = {"policy": needs_names()}
        kinds = [(kind.capitalize(), {"fields": [kind, *notes.get(kind, ()), *field_names(kind)]}) for kind in KINDS]
        first = ["name"] if obj is None else ["name", "decides_by", "silent_since", "decided"]
        return [
            (None, {"fields": first}),
            *kinds,
            ("Jobs", {"fields": _JOBS}),
            ("Containers", {"fields": _CONTAINERS}),
            ("Agents", {"fields": _AGENTS}),
            ("Checks of GPUs", {"fields": _CHECKS}),
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """A pool keeps its name."""
        return [] if obj is None else ["name", "decides_by", "silent_since", "decided"]

    def render_change_form(  # noqa: PLR0917 - the signature is Django's
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: Pool | None = None,
    ) -> HttpResponse:
        """The page; a rejected form shows the stored values beside the entered ones."""
        form = context["adminform"].form
        if obj is not None and form.errors:
            # The form has already assigned the entered values to the object.
            obj.refresh_from_db()
            form.show_stored(obj)
        return super().render_change_form(request, context, add, change, form_url, obj)

    def save_model(self, request: HttpRequest, obj: Pool, form: forms.ModelForm[Pool], change: bool) -> None:
        """Store the pool, and run its next cycle by the new settings."""
        super().save_model(request, obj, form, change)
        decide_again(obj)

    @admin.display(description="Decides by")
    def decides_by(self, pool: Pool) -> str:
        """Its policy, or its fallback with the time and the reason."""
        fallback = fallback_of(pool)
        if fallback is None:
            return pool.policy
        config = config_from_dict(fallback["config"])
        return (
            f"{config.policy}, {config.placement}, {config.admission} since {fallback['since']}, because its own "
            f"settings failed in {_source_of(fallback)}: {fallback['why']}"
        )

    @admin.display(description="What its policy decided")
    def decided(self, pool: Pool) -> SafeString:
        """The shares of the last solve and the last rounds; for policies with rounds."""
        return decided_page(pool)

    @admin.action(description="Try the pool's own settings again")
    def try_again(self, request: HttpRequest, queryset: QuerySet[Pool]) -> None:
        """Let the next cycle decide by the pool's own settings."""
        for pool in queryset:
            if fallback_of(pool) is None:
                self.message_user(request, f"{pool.name} decides by its settings.")
                continue
            with transaction.atomic():
                forget_fallback(pool, actor=actor(request))
            self.message_user(request, f"{pool.name}: the next cycle tries its settings again.", messages.WARNING)


def _source_of(fallback: dict[str, Any]) -> str:
    return "its lane" if fallback["cycle"] is None else f"cycle {fallback['cycle']}"


class LaneForm(forms.ModelForm):  # type: ignore[type-arg]
    """A lane, with a policy that exists."""

    class Meta:
        model = Lane
        fields = ["pool", "mode", "limit_s", "fill_policy", "fill_params"]

    def clean(self) -> dict[str, Any]:
        """Refuse a policy that cannot fill what targets leave."""
        data = super().clean() or {}
        if not self.errors:
            for setting, message in objections("policy", data["fill_policy"], data["fill_params"]):
                self.add_error("fill_policy" if setting == "policy" else "fill_params", message)
        return data


@admin.register(Lane)
class LaneAdmin(AuditedMixin, ModelAdmin[Lane]):
    """The pools whose policy solves outside the lock."""

    form = LaneForm
    list_display = ["pool", "mode", "limit_s", "fill_policy"]
    list_select_related = ["pool"]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """A lane keeps its pool."""
        return [] if obj is None else ["pool"]


@admin.register(Target)
class TargetAdmin(ReadOnlyMixin, ModelAdmin[Target]):
    """What lanes solved."""

    list_display = [
        "id",
        "pool",
        "made_at",
        "milliseconds",
        "state",
        "places",
        "preempts",
        "left_out",
        "by_now",
        "reason",
    ]
    list_filter = ["pool", "state"]
    list_select_related = ["pool"]
    ordering = ["-id"]
    list_per_page = 50
    show_full_result_count = False
    exclude = ["snapshot", "plan"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Target]:
        """The rows without the columns for replay."""
        return super().get_queryset(request).defer("snapshot", "plan")

    @admin.display(description="ms")
    def milliseconds(self, target: Target) -> str:
        """The duration of the solve."""
        return f"{target.solve_ms:.1f}"

    @admin.display(description="Dropped")
    def left_out(self, target: Target) -> int:
        """The number of jobs of which a part was not carried out."""
        return len(target.dropped)

    @admin.display(description="In shadow")
    def by_now(self, target: Target) -> str:
        """Where the cycles placed its jobs."""
        return ", ".join(f"{number} {where}" for where, number in target.agreement.items()) or "-"


@admin.register(Cycle)
class CycleAdmin(ReadOnlyMixin, ModelAdmin[Cycle]):
    """The scheduling cycles."""

    list_display = [
        "id",
        "pool",
        "planner",
        "started_at",
        "trigger",
        "waiting",
        "placed",
        "reserved",
        "preempted",
        "held",
        "refused",
        "milliseconds",
        "error",
    ]
    list_filter = ["pool", "planner", "trigger", ("error", admin.EmptyFieldListFilter)]
    list_select_related = ["pool"]
    ordering = ["-id"]
    list_per_page = 50
    show_full_result_count = False
    exclude = ["snapshot", "plan"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Cycle]:
        """The rows without the columns for replay."""
        return super().get_queryset(request).defer("snapshot", "plan")

    @admin.display(description="ms")
    def milliseconds(self, cycle: Cycle) -> str:
        """The duration of the cycle."""
        return f"{cycle.duration_ms:.1f}"
