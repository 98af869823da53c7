"""Servers over SSH: how they are reached, and how it stands with their links. Private keys go in and never come out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.widgets import UnfoldAdminIntegerFieldWidget, UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from muster.common.errors import Invalid
from muster.console.base import ModelAdmin, OperatorsMixin, RefusalsMixin, actor
from muster.fleet.models import SLUG, Pool
from muster.links import rules
from muster.links.keys import fingerprint_of, read_host_key, read_private_key
from muster.links.models import Server
from muster.links.services import Access, add_server, change_server, remove_server, try_again

# The skin has no type hints; its widgets are Django's with other looks.
if TYPE_CHECKING:
    TextArea = forms.Textarea
else:
    from unfold.widgets import UnfoldAdminTextareaWidget as TextArea

_CHECKS: dict[str, Callable[[Any], object]] = {
    "host": rules.require_host,
    "port": rules.require_port,
    "user": rules.require_user,
    "host_key": read_host_key,
    "folder": rules.require_folder,
    "options": rules.require_options,
    "private_key": read_private_key,
}


class WriteOnlyTextArea(TextArea):
    """A text area that never sends back what was typed into it."""

    def format_value(self, value: Any) -> str:
        """Nothing."""
        return ""


class ServerForm(forms.ModelForm[Server]):
    """The form for the access to a server. An empty private key keeps the stored one, which is never shown."""

    host = forms.CharField(max_length=253, widget=UnfoldAdminTextInputWidget)
    port = forms.IntegerField(initial=22, widget=UnfoldAdminIntegerFieldWidget)
    user = forms.CharField(max_length=64, widget=UnfoldAdminTextInputWidget)
    private_key = forms.CharField(
        strip=False,
        required=False,
        widget=WriteOnlyTextArea(attrs={"rows": 6, "autocomplete": "off", "spellcheck": "false"}),
        help_text="Ed25519, ECDSA or RSA, without a passphrase. Stored encrypted, and never shown again.",
    )
    host_key = forms.CharField(
        required=False,
        widget=TextArea(attrs={"rows": 3}),
        help_text=(
            "What the server must show: its public host key, or the SHA256 of it. On the server: ssh-keygen -lf "
            "/etc/ssh/ssh_host_ed25519_key.pub. Without it nothing connects, and the state tells what the server shows."
        ),
    )
    folder = forms.CharField(
        max_length=200,
        required=False,
        widget=UnfoldAdminTextInputWidget,
        help_text=(
            f"Where the agent is kept on the server: {rules.FOLDER_OF_ROOT} for root, {rules.FOLDER_OF_OTHERS} in the "
            "home of another user."
        ),
    )
    options = forms.CharField(
        max_length=500,
        required=False,
        widget=UnfoldAdminTextInputWidget,
        help_text="Of muster-agent run, such as --runtime=docker --gpus=nvml.",
    )

    class Meta:
        model = Server
        fields = ["host", "port", "user", "host_key", "folder", "options"]

    def clean(self) -> dict[str, Any]:
        """Each field by the rules that the services have."""
        values = dict(super().clean() or {})
        for name, check in _CHECKS.items():
            value = values.get(name)
            if value in (None, ""):
                continue
            try:
                values[name] = check(value)
            except Invalid as error:
                self.add_error(name, error.errors[0].message)
        return values

    def access(self) -> Access:
        """The access that the form describes."""
        return Access(**{name: self.cleaned_data[name] for name in _CHECKS})


class AddServerForm(ServerForm):
    """A new server, with the node that it is for."""

    name = forms.CharField(max_length=63, validators=[SLUG], widget=UnfoldAdminTextInputWidget, label="Node")
    pool = forms.ModelChoiceField(Pool.objects.order_by("name"), widget=UnfoldAdminSelectWidget)
    address = forms.CharField(
        max_length=255,
        required=False,
        widget=UnfoldAdminTextInputWidget,
        help_text="Where other nodes reach it; by default what the platform reaches it by.",
    )
    rack = forms.CharField(max_length=63, required=False, widget=UnfoldAdminTextInputWidget)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["private_key"].required = True


@admin.register(Server)
class ServerAdmin(RefusalsMixin, OperatorsMixin, ModelAdmin[Server]):
    """Servers that are reached over SSH."""

    form, add_form = ServerForm, AddServerForm
    list_display = ["node", "host", "port", "user", "state", "reason_begins", "since", "tries"]
    list_filter = ["state", "node__pool"]
    list_select_related = ["node"]
    search_fields = ["node__name", "host"]
    ordering = ["node__name"]
    actions = ["try_again"]
    fieldsets = [
        ("Link", {"fields": ["node", "state", "reason", "since", "tries", "due_at"]}),
        ("Access", {"fields": ["host", "port", "user", "private_key", "public_key", "fingerprint", "host_key"]}),
        ("Agent", {"fields": ["folder", "options"]}),
    ]
    add_fieldsets = [
        (None, {"fields": ["name", "pool", "address", "rack"]}),
        ("Access", {"fields": ["host", "port", "user", "private_key", "host_key"]}),
        ("Agent", {"fields": ["folder", "options"]}),
    ]
    kept_fields = ["node", "state", "reason", "since", "tries", "due_at", "public_key", "fingerprint"]

    def save_model(self, request: HttpRequest, obj: Server, form: Any, change: bool) -> None:
        if change:
            change_server(server=obj, access=form.access(), actor=actor(request))
            return
        given = {name: form.cleaned_data[name] for name in ("pool", "name", "address", "rack")}
        server = add_server(**given, access=form.access(), actor=actor(request))
        obj.pk, obj._state.adding = server.pk, False

    def delete_model(self, request: HttpRequest, obj: Server) -> None:
        remove_server(server=obj, actor=actor(request))

    @admin.display(description="Reason")
    def reason_begins(self, server: Server) -> str:
        return server.reason if len(server.reason) <= 120 else f"{server.reason[:120]}…"

    @admin.display(description="Fingerprint of the key")
    def fingerprint(self, server: Server) -> str:
        """The SHA256 of the key that the platform signs in with."""
        return fingerprint_of(server.public_key)

    @admin.action(description="Try again now")
    def try_again(self, request: HttpRequest, queryset: QuerySet[Server]) -> None:
        for server in queryset.select_related("node"):
            try_again(server=server, actor=actor(request))
        self.message_user(request, f"{len(queryset)} servers are tried again.")
