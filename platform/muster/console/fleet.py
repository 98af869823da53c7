"""Nodes and their GPUs. Pools are in `muster.console.pools`, which knows the policies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import F, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import localize
from django.utils.html import format_html
from django.utils.text import Truncator
from django.utils.timezone import localtime
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from muster.common.clock import database_now
from muster.common.errors import MusterError
from muster.console.base import (
    AuditedMixin,
    ModelAdmin,
    OperatorsMixin,
    ReadOnlyMixin,
    RefusalsMixin,
    TabularInline,
    actor,
    never,
)
from muster.events.services import wake_pool
from muster.fleet.gone import declare_gone
from muster.fleet.maintenance import call_off, plan_maintenance, planned_of
from muster.fleet.models import Gpu, HealthReport, Maintenance, Node, Pool, RunningJobs, Strike
from muster.fleet.package import install_commands, unreachable_url_hint
from muster.fleet.runtimes import AGENT_IN, NO_CONTAINERS
from muster.fleet.services import (
    cordon_node,
    create_node,
    drain_node,
    move_jobs_off,
    renew_join_token,
    repair_gpus,
    resume_node,
    retire_node,
)
from muster.fleet.strikes import forgive_strikes, strikes_of

# Jobs are placed by these, so a cycle that is under way must notice that they changed.
_PLACEMENT_FIELDS = frozenset({"rack", "labels", "single_user_tenant", "single_user_shared"})
# What a node's page shows of its state and of its agent.
_STATE = ["state", "reason", "moves_jobs_off", "planned", "health", "barred", "link", "strikes_now", "last_seen"]
_AGENT = ["cpus", "memory_mib", "offers", "agent_version", "boot_id", "join_expires_at", "inventory", "links"]


def ago(past: timedelta) -> str:
    """A time that is past, in its largest unit: 7 s ago, 3 h ago."""
    seconds = max(int(past.total_seconds()), 0)
    for unit, length_s in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length_s:
            return f"{seconds // length_s} {unit} ago"
    return f"{seconds} s ago"


class StateFilter(admin.ChoicesFieldListFilter):
    """Nodes by what operators want of them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.title = "state"


class GpuInline(ReadOnlyMixin, TabularInline[Gpu, Node]):
    """The node's GPUs, as its agent reports them."""

    model = Gpu
    fields = ["index", "uuid", "type", "model", "memory_mib", "numa_node", "health", "health_why", "present"]
    ordering = ["index"]
    extra = 0


class ReasonForm(forms.Form):
    """The form that asks for a reason."""

    reason = forms.CharField(max_length=500, widget=UnfoldAdminTextInputWidget(attrs={"autofocus": True}))


def _with_reason(name: str, act: Callable[..., None], description: str, explanation: str) -> Callable[..., Any]:
    """An action that asks for a reason on a page of its own, and then acts node by node."""

    @admin.action(description=description)
    def ask(self: NodeAdmin, request: HttpRequest, nodes: QuerySet[Node]) -> HttpResponse | None:
        form = ReasonForm(request.POST if "apply" in request.POST else None)
        if not form.is_valid():
            context = {
                **self.admin_site.each_context(request),
                "title": name.replace("_", " ").capitalize(),
                "opts": self.model._meta,
                "explanation": explanation,
                "nodes": nodes.select_related("pool"),
                "action": name,
                "form": form,
                "checkbox_name": ACTION_CHECKBOX_NAME,
            }
            return TemplateResponse(request, "admin/fleet/node/give_reason.html", context)
        self._act_on_each(request, nodes, act, name, reason=form.cleaned_data["reason"])
        return None

    return ask


@admin.register(Node)
class NodeAdmin(AuditedMixin, ModelAdmin[Node]):
    """Servers."""

    list_display = ["name", "pool", "state", "health", "gpu_list", "machine", "seen", "agent", "why"]
    list_filter = ["pool", ("admin", StateFilter), "health"]
    list_select_related = ["pool", "lease"]
    search_fields = ["name", "address", "rack"]
    ordering = ["name"]
    inlines = [GpuInline]
    actions = [
        "cordon",
        "drain",
        "move_jobs_off",
        "resume",
        "declare_gone",
        "retire",
        "forgive",
        "repair",
        "renew_join_token",
    ]
    fieldsets = [
        (None, {"fields": ["name", "pool", "address", "rack", "labels"]}),
        ("Tenants", {"fields": ["single_user", "single_user_tenant", "single_user_shared"]}),
        ("State", {"fields": [*_STATE, "version"]}),
        ("Agent", {"fields": [*_AGENT]}),
        ("Install the agent", {"fields": ["install"]}),
    ]
    add_fieldsets = [(None, {"fields": ["name", "pool", "address", "rack"]})]
    readonly_fields = ["single_user", *_STATE, "version", *_AGENT, "install"]

    kept_fields = ["name", "pool"]
    has_delete_permission = never  # past jobs name their nodes

    def get_inlines(self, request: HttpRequest, obj: Any) -> Any:
        return [] if obj is None else self.inlines

    def save_model(self, request: HttpRequest, obj: Node, form: forms.ModelForm[Node], change: bool) -> None:
        """Store what was edited, or add the node and show its join token this once."""
        if change:
            super().save_model(request, obj, form, change)
            if _PLACEMENT_FIELDS & set(form.changed_data):
                Node.objects.filter(pk=obj.pk).update(version=F("version") + 1)
            wake_pool(obj.pool_id)
            return
        node, secret = create_node(
            pool=obj.pool, name=obj.name, address=obj.address, rack=obj.rack, actor=actor(request)
        )
        obj.pk, obj._state.adding = node.pk, False
        self._show_join_token(request, node, secret)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Node]:
        return super().get_queryset(request).prefetch_related("gpus")

    @admin.display(description="State", ordering="admin")
    def state(self, node: Node) -> str:
        """The operators' setting: whether jobs may start there."""
        return node.admin

    @admin.display(description="GPUs")
    def gpu_list(self, node: Node) -> str:
        """The number of GPUs of each type, and of failed ones."""
        present = [gpu for gpu in node.gpus.all() if gpu.present]
        types = [f"{count} {name}" for name, count in sorted(Counter(gpu.type for gpu in present).items())]
        failed = sum(not gpu.healthy for gpu in present)
        return ", ".join(types) + (f" ({failed} failed)" if failed else "") or "none"

    @admin.display(description="CPUs and memory", ordering="memory_mib")
    def machine(self, node: Node) -> str:
        """The resources that its agent offers; empty before the first registration."""
        return f"{node.cpus}, {node.memory_mib / 1024:.0f} GiB" if node.cpus else ""

    @admin.display(description="Seen", ordering="lease__seen_at")
    def seen(self, node: Node) -> str | None:
        """The time since its agent last spoke; the node's page has the moment."""
        lease = getattr(node, "lease", None)
        return ago(timezone.now() - lease.seen_at) if lease and node.credential_digest else None

    @admin.display(description="Agent", ordering="agent_version")
    def agent(self, node: Node) -> str:
        return node.agent_version

    @admin.display(description="Reason", ordering="reason")
    def why(self, node: Node) -> str:
        """The reason why it is cordoned or draining."""
        return Truncator(node.reason).chars(60)

    @admin.display(description="Last seen")
    def last_seen(self, node: Node) -> str | None:
        """When its agent last spoke, in words: Django's form would show a moment with its microseconds."""
        lease = getattr(node, "lease", None)
        return localize(localtime(lease.seen_at)) if lease and node.credential_digest else None

    @admin.display(description="Link")
    def link(self, node: Node) -> str:
        """The connection between platform and agent, and the reason if it fails."""
        server = getattr(node, "server", None)  # of an app above this one
        if server is None:
            return "The agent calls the platform by itself."
        page = reverse("admin:links_server_change", args=[server.pk])
        return format_html('Over <a href="{}">SSH</a>: {} {}', page, server.state, server.reason)

    @admin.display(description="Jobs run")
    def offers(self, node: Node) -> str:
        """In what, and why in no containers."""
        runtimes, why = ", ".join(node.inventory.get("runtimes") or ()), node.labels.get(NO_CONTAINERS, "")
        trial = "The agent is in a container: this node is for trying out." if node.labels.get(AGENT_IN) else ""
        return ". ".join(filter(None, (runtimes, why and f"No containers: {why}", trial)))

    @admin.display(description="On the server")
    def install(self, node: Node) -> str:
        """The commands that put this platform's agent on the server, with the digest of its file."""
        return format_html(
            '<pre style="white-space: pre-wrap; overflow-wrap: anywhere">{}</pre>'
            "<p>Run both lines as root. The second one asks for the join token. "
            "The action <em>Renew the join token</em> shows a new one. {}</p>",
            install_commands(),
            unreachable_url_hint(),
        )

    @admin.display(description="Maintenance")
    def planned(self, node: Node) -> str:
        """When it is to be free of jobs, and why."""
        return "; ".join(
            f"{row.begins_at:%Y-%m-%d %H:%M} to {row.ends_at:%Y-%m-%d %H:%M} UTC: {row.reason}"
            for row in planned_of(node)
        )

    @admin.display(description="Strikes")
    def strikes_now(self, node: Node) -> str:
        """The weight of the failures that the node is blamed for, with a link to them."""
        counted = strikes_of([node.pk], now=database_now()).get(node.pk, 0.0)
        where = reverse("admin:fleet_strike_changelist")
        return format_html('{} <a href="{}?node__id__exact={}">Which?</a>', f"{counted:g}", where, node.pk)

    cordon = _with_reason(
        "cordon", cordon_node, "Cordon: nothing new starts", "Nothing new will start; what runs goes on."
    )
    drain = _with_reason(
        "drain",
        drain_node,
        "Drain: cordon and wait for what runs",
        "Nothing new will start; the nodes are empty when what runs has ended.",
    )
    move_jobs_off = _with_reason(
        "move_jobs_off",
        move_jobs_off,
        "Move jobs off: drain, and queue preemptible jobs again",
        "Nothing new will start; preemptible jobs save their work, stop and are queued again.",
    )

    @admin.action(description="Resume: give back to the scheduler")
    def resume(self, request: HttpRequest, queryset: QuerySet[Node]) -> None:
        self._act_on_each(request, queryset, resume_node, "resume")

    declare_gone = _with_reason(
        "declare_gone",
        declare_gone,
        "Declare gone: let go of what a silent node has",
        "Be sure that the machines run nothing any more: what they have is lost, and its jobs may start elsewhere "
        "at once. The nodes are cordoned.",
    )
    retire = _with_reason(
        "retire",
        retire_node,
        "Retire: take out for good",
        "The nodes' agents are refused from now on; there is no way back.",
    )
    forgive = _with_reason(
        "forgive",
        forgive_strikes,
        "Forgive: its strikes no longer count",
        "What the nodes were blamed for so far no longer counts; what comes after does.",
    )
    repair = _with_reason(
        "repair",
        repair_gpus,
        "Repair: its GPUs are well again and take jobs",
        "Jobs will get the nodes' GPUs that failed again, and warnings are forgotten.",
    )

    @admin.action(description="Renew the join token")
    def renew_join_token(self, request: HttpRequest, queryset: QuerySet[Node]) -> None:
        """Show a new join token for each node; the old ones end to work."""
        for node in queryset:
            self._show_join_token(request, node, renew_join_token(node=node, actor=actor(request)))

    def _act_on_each(
        self, request: HttpRequest, nodes: QuerySet[Node], act: Callable[..., None], action: str, **given: str
    ) -> None:
        for node in nodes:
            try:
                act(node=node, actor=actor(request), **given)
            except MusterError as error:
                self.message_user(request, f"{node.name}: {error.detail}", messages.ERROR)
            else:
                self.message_user(request, f"{node.name}: {action.replace('_', ' ')} is done.")

    def _show_join_token(self, request: HttpRequest, node: Node, secret: str) -> None:
        text = format_html(
            "Join token of {}, shown this once and good for a day: {} — on the server, run as root:"
            '<pre style="white-space: pre-wrap; overflow-wrap: anywhere">{}</pre>'
            "The first line downloads and verifies the agent, the second one asks for the token. {}",
            node.name,
            secret,
            install_commands(),
            unreachable_url_hint(),
        )
        self.message_user(request, text, messages.WARNING)


@admin.register(Gpu)
class GpuAdmin(ReadOnlyMixin, ModelAdmin[Gpu]):
    """GPUs and their newest readings."""

    list_display = ["uuid", "node", "index", "type", "memory_mib", "health", "present", "utilization", "temperature"]
    list_filter = ["type", "health", "present", "node__pool"]
    list_select_related = ["node", "reading"]
    search_fields = ["uuid", "node__name"]
    ordering = ["node__name", "index"]

    @admin.display(description="Utilisation (%)")
    def utilization(self, gpu: Gpu) -> float | None:
        reading = getattr(gpu, "reading", None)
        return reading.utilization if reading else None

    @admin.display(description="Temperature (°C)")
    def temperature(self, gpu: Gpu) -> float | None:
        reading = getattr(gpu, "reading", None)
        return reading.temperature_c if reading else None


@admin.register(Strike)
class StrikeAdmin(ReadOnlyMixin, ModelAdmin[Strike]):
    """Failures that nodes are blamed for."""

    list_display = ["at", "node", "gpu", "reason", "job_id", "detail", "forgiven_at"]
    list_filter = ["reason", ("forgiven_at", admin.EmptyFieldListFilter), "node__pool", "node"]
    list_select_related = ["node", "gpu"]
    search_fields = ["node__name", "detail"]
    ordering = ["-at"]
    list_per_page = 50
    exclude = ["incident"]


class MaintenanceForm(forms.ModelForm[Maintenance]):
    """New maintenance, judged by the same rules as over REST; what is wrong is told at its field."""

    pool = forms.ModelChoiceField(
        Pool.objects.order_by("name"), required=False, widget=UnfoldAdminSelectWidget, help_text="Every node of it."
    )
    node = forms.ModelChoiceField(
        Node.objects.order_by("name"), required=False, widget=UnfoldAdminSelectWidget, help_text="Or this one alone."
    )

    class Meta:
        model = Maintenance
        fields = ["begins_at", "ends_at", "running_jobs", "reason"]

    def clean(self) -> dict[str, Any]:
        """Check the form's values, and name the field that is wrong."""
        values = dict(super().clean() or {})
        begins_at, ends_at = values.get("begins_at"), values.get("ends_at")
        if begins_at and ends_at and ends_at <= begins_at:
            self.add_error("ends_at", "it must come after begins_at")
        if bool(values.get("node")) == bool(values.get("pool")):
            self.add_error("node", "name either a node or a pool")
        return values


@admin.register(Maintenance)
class MaintenanceAdmin(RefusalsMixin, OperatorsMixin, ModelAdmin[Maintenance]):
    """Maintenance of nodes. What is planned is not edited: it is called off and planned anew."""

    form = MaintenanceForm
    list_display = ["what", "begins_at", "ends_at", "running_jobs", "reason", "begun_at", "over_at", "created_by"]
    list_filter = ["pool", ("over_at", admin.EmptyFieldListFilter)]
    list_select_related = ["pool", "node"]
    search_fields = ["node__name", "pool__name", "reason"]
    ordering = ["-begins_at"]
    actions = ["call_off"]
    add_fields = ["node", "pool", "begins_at", "ends_at", "running_jobs", "reason"]

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """The entered fields; for a stored row also its course."""
        return self.add_fields if obj is None else [*self.add_fields, "begun_at", "over_at", "created_by", "created_at"]

    has_change_permission = has_delete_permission = never

    def save_model(self, request: HttpRequest, obj: Maintenance, form: Any, change: bool) -> None:
        given = dict(form.cleaned_data)
        places = {name: row and row.name for name in ("pool", "node") for row in [given.pop(name)]}
        running_jobs = RunningJobs(given.pop("running_jobs"))
        row = plan_maintenance(**places, **given, running_jobs=running_jobs, actor=actor(request))
        obj.pk, obj._state.adding = row.pk, False

    @admin.action(description="Call off: give the nodes back now")
    def call_off(self, request: HttpRequest, queryset: QuerySet[Maintenance]) -> None:
        """End what is under way, and forget what is planned."""
        for row in queryset:
            try:
                call_off(maintenance=row, actor=actor(request))
            except MusterError as error:
                self.message_user(request, error.detail, messages.ERROR)
            else:
                self.message_user(request, f"{row} is called off.")


@admin.register(HealthReport)
class HealthReportAdmin(ReadOnlyMixin, ModelAdmin[HealthReport]):
    """Reports of agents about their GPUs."""

    list_display = ["last_at", "node", "gpu", "kind", "xid", "level", "action", "detail", "count", "over_at"]
    list_filter = ["level", "kind", ("over_at", admin.EmptyFieldListFilter), "node__pool", "node"]
    list_select_related = ["node", "gpu"]
    search_fields = ["node__name", "detail"]
    ordering = ["-last_at"]
    list_per_page = 50
