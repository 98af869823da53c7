"""Admin pages of pools, with their policies and their screening, and of scheduling cycles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db import models, transaction
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils.safestring import SafeString

from muster.console.base import AuditedMixin, ModelAdmin, ReadOnlyMixin, RecordsMixin, actor
from muster.console.planners import PlannerAdmin
from muster.dispatch.admin.decided_page import decided_page
from muster.dispatch.admin.forms import PoolForm, field_names, needs_names, pool_form
from muster.dispatch.admin.word_fields import field_of_column
from muster.dispatch.config.plugins import KINDS, objections
from muster.dispatch.config.settings import decide_again, fallback_of, forget_fallback
from muster.dispatch.models import Cycle, Lane, Planner, Target
from muster.fleet.models import Pool
from muster.screening.models import PoolScreening, ScreeningResult
from scheduler.engine.cycle import CycleConfig
from scheduler.model.codec import from_json

# The columns that are folded, by subject.
SUBJECTS: Mapping[str, Sequence[str]] = {
    "Jobs": (
        "cpus_per_gpu",
        "memory_mib_per_gpu",
        "max_grace_s",
        "log_max_bytes_per_job",
        "offer_lease_s",
        "shells",
        "keep_failed_max_s",
    ),
    "Containers": ("gang_network", "infiniband", "mount_roots"),
    "Nodes that fail": ("strike_half_life_s", "black_hole_jobs", "black_hole_s"),
    "Agents": (
        "beat_s",
        "suspect_after_s",
        "unreachable_after_s",
        "stop_after_s",
        "fence_margin_s",
        "claim_timeout_s",
        "orphan_grace_s",
    ),
    "Checks of GPUs": ("check_gpus", "check_every_s", "check_s_per_day", "check_release"),
}
# What the columns without a help text of their own mean.
_HELP = {
    "beat_s": "How often an agent reports.",
    "suspect_after_s": "A node that is silent for so long gets no new jobs.",
    "unreachable_after_s": "A node that is silent for so long is unreachable: its jobs are in doubt.",
    "claim_timeout_s": "How long a node has to claim a job that was placed there.",
    "orphan_grace_s": "How long what runs on a node without the platform's knowledge may go on before it is ended.",
    "log_max_bytes_per_job": "A job's log is cut beyond this size.",
}


admin.site.register(Planner, PlannerAdmin)


@admin.register(Pool)
class PoolAdmin(AuditedMixin, ModelAdmin[Pool]):
    """Nodes that are scheduled together."""

    form = PoolForm
    list_display = ["name", "policy", "placement", "admission", "decides_by", "silent_since"]
    search_fields = ["name"]
    ordering = ["name"]
    actions = ["try_again"]
    kept_fields = ["name", "decides_by", "silent_since", "decided"]

    class Media:
        js = ["muster/pool.js"]
        css = {"all": ["muster/pool.css"]}

    @property
    def conditional_fields(self) -> dict[str, str]:
        """The parameters of a plug-in, and what a policy needs to know, are shown while it is selected."""
        needs = {name: f"policy == '{policy}'" for name, policy in needs_names().items()}
        return needs | {name: f"{kind} == '{plugin}'" for kind in KINDS for name, plugin in field_names(kind).items()}

    def get_urls(self) -> list[URLPattern]:
        """The pages, and what saving a form would change."""
        view = self.admin_site.admin_view(self.preview)
        return [path("<path:object_id>/preview/", view, name="fleet_pool_preview"), *super().get_urls()]

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """The form with a field for each parameter of each installed plug-in."""
        return super().get_form(request, obj, change, **{**kwargs, "form": pool_form()})

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Durations and sizes as in a spec, and each column with its default."""
        field = field_of_column(db_field) or super().formfield_for_dbfield(db_field, request, **kwargs)
        if field is not None and any(db_field.name in names for names in SUBJECTS.values()):
            default = _default_of(db_field, field)
            told = (field.help_text or _HELP.get(db_field.name, ""), f"Default: {default}." if default else "")
            field.help_text = " ".join(filter(None, map(str, told)))
        return field

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """The plug-ins, and folded by subject the seldom changed settings, with the number of changed columns."""
        decides = ["preset", "policy", *needs_names(), "admission"]
        state = []
        if obj is not None:
            decides += ["preview", "reason"]
            state = ["decides_by"] * (fallback_of(obj) is not None) + ["silent_since"] * (obj.silent_since is not None)
        parameters = [*field_names("policy"), "placement", *field_names("placement"), *field_names("admission")]
        folded = [
            (_heading(title, names, obj), {"fields": names, "classes": ["collapse"]})
            for title, names in SUBJECTS.items()
        ]
        decided = [] if obj is None else [("What its policy decided", {"fields": ["decided"], "classes": ["collapse"]})]
        return [
            (None, {"fields": ["name", *state, *decides]}),
            ("Placement and parameters", {"fields": parameters, "classes": ["collapse"]}),
            *decided,
            *folded,
        ]

    def preview(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The changes that saving the posted form would make, as a part of the page."""
        pool = self.get_object(request, object_id)
        if pool is None or request.method != "POST" or not self.has_change_permission(request, pool):
            raise Http404
        form = self.get_form(request, pool, change=True)(request.POST, instance=pool)
        form.full_clean()
        return HttpResponse(form.switch)

    def reason_of(self, form: Any) -> str:
        """The reason of the change, for the audit log."""
        return str(form.cleaned_data.get("reason") or "")

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
        config = from_json(CycleConfig, fallback["config"])
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
        for pool in queryset:
            if fallback_of(pool) is None:
                self.message_user(request, f"{pool.name} decides by its settings.")
                continue
            with transaction.atomic():
                forget_fallback(pool, actor=actor(request))
            self.message_user(request, f"{pool.name}: the next cycle tries its settings again.", messages.WARNING)


def _default_of(column: models.Field[Any, Any], field: forms.Field) -> str:
    """A column's default as its field shows it; empty if that is nothing."""
    value = column.get_default()
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value in (None, "") else str(field.prepare_value(value))


def _heading(title: str, names: Iterable[str], pool: Pool | None) -> str:
    """The subject, with the number of its columns that are not at their default."""
    if pool is None:
        return title
    fresh = Pool()
    changed = sum(getattr(pool, name) != getattr(fresh, name) for name in names)
    return f"{title} ({changed} changed)" if changed else title


def _source_of(fallback: dict[str, Any]) -> str:
    return "its lane" if fallback["cycle"] is None else f"cycle {fallback['cycle']}"


class LaneForm(forms.ModelForm[Lane]):
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
    kept_fields = ["pool"]


class WithoutReplayMixin(RecordsMixin):
    """Records without the columns for replay, which are large."""

    list_select_related: Any = ("pool",)
    exclude: Any = ("snapshot", "plan")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request)  # type: ignore[misc]
        return rows.defer(*self.exclude)


@admin.register(Target)
class TargetAdmin(WithoutReplayMixin, ModelAdmin[Target]):
    """Solutions of lanes."""

    _now = ["state", "places", "preempts", "left_out", "by_now", "reason"]
    list_display = ["id", "pool", "made_at", "milliseconds", *_now]
    list_filter = ["pool", "state"]

    @admin.display(description="ms")
    def milliseconds(self, target: Target) -> str:
        return f"{target.solve_ms:.1f}"

    @admin.display(description="Dropped")
    def left_out(self, target: Target) -> int:
        """The number of jobs of which a part was not carried out."""
        return len(target.dropped)

    @admin.display(description="In shadow")
    def by_now(self, target: Target) -> str:
        """The places at which cycles placed its jobs."""
        return ", ".join(f"{number} {where}" for where, number in target.agreement.items()) or "-"


@admin.register(Cycle)
class CycleAdmin(WithoutReplayMixin, ModelAdmin[Cycle]):
    """The scheduling cycles."""

    _counts = ["waiting", "placed", "reserved", "preempted", "held", "refused"]
    list_display = ["id", "pool", "planner", "started_at", "trigger", *_counts, "milliseconds", "error"]
    list_filter = ["pool", "planner", "trigger", ("error", admin.EmptyFieldListFilter)]

    @admin.display(description="ms")
    def milliseconds(self, cycle: Cycle) -> str:
        return f"{cycle.duration_ms:.1f}"


@admin.register(PoolScreening)
class PoolScreeningAdmin(AuditedMixin, ModelAdmin[PoolScreening]):
    """The screening of a pool's large jobs. Deleting the row ends that: jobs that wait go on."""

    audit_type = "screening"
    list_display = ["pool", "screening_pool", "min_gpus", "minutes", "world", "max_wait_s", "trust_days", "tenant_gpus"]
    list_select_related = ["pool", "screening_pool"]
    ordering = ["pool__name"]
    fields = ["pool", "screening_pool", "min_gpus", "minutes", "world", "max_wait_s", "trust_days", "tenant_gpus"]
    kept_fields = ["pool"]


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
