"""The pages on which operators write versions of rules, see what these do to past failures, and put them into force."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from muster.common.errors import Conflict, Invalid
from muster.events.admin_base import ModelAdmin, OperatorsMixin, actor
from muster.failures.versions import V, text_in_force


class VersionForm(forms.ModelForm):  # type: ignore[type-arg]
    """A version, which must be sound before it is stored."""

    def require_sound(self, text: str) -> None:
        """Return for a text of sound rules; `Invalid` says what is wrong with another."""
        raise NotImplementedError

    def clean_text(self) -> str:
        """The text, or what is wrong with which rule."""
        text: str = self.cleaned_data["text"]
        try:
            self.require_sound(text)
        except Invalid as error:
            raise forms.ValidationError(error.errors[0].message) from error
        return text


class VersionsAdmin(OperatorsMixin, ModelAdmin[V], Generic[V]):
    """Versions of one kind of rules; subclasses say how they are drafted, and what a trial tells."""

    ordering = ["-pk"]
    actions = ["put_in_force"]

    def draft(self, *, text: str, note: str, actor: str) -> V:
        """A version that is tried on what has failed of late, and stored."""
        raise NotImplementedError

    def enforce(self, version: V, *, actor: str) -> None:
        """Put the version into force."""
        raise NotImplementedError

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """A version stays as it is."""
        return obj is None and super().has_change_permission(request)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """And is kept."""
        return False

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """What is entered, and of a stored version what is known of it."""
        return ["note", "text"] if obj is None else ["note", "text", "author", "created_at", "in_force_at", "tried"]

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """A new version begins with the rules that are in force."""
        return {"text": text_in_force(self.model)}

    def save_model(self, request: HttpRequest, obj: V, form: Any, change: bool) -> None:
        """Store a new version, tried on what has failed of late."""
        version = self.draft(text=obj.text, note=obj.note, actor=actor(request))
        obj.pk, obj.trial = version.pk, version.trial

    @admin.action(description="Put into force")
    def put_in_force(self, request: HttpRequest, versions: QuerySet[V]) -> None:
        """Let the version count from now on."""
        if len(versions) != 1:
            messages.error(request, "Choose one version: it replaces the rules that are in force.")
            return
        try:
            self.enforce(versions[0], actor=actor(request))
            messages.success(request, f"{versions[0]} is in force now.")
        except Conflict as error:
            messages.warning(request, str(error))


def trial_table(sentence: str, columns: tuple[str, str, str, str], rows: Sequence[tuple[object, ...]]) -> SafeString:
    """What a trial found: a sentence, and a row for each job of which there is something to tell; lines come last."""
    cells = "<td>{}</td><td>{}</td><td>{}</td><td><code>{}</code></td>"
    body = format_html_join("", f"<tr>{cells}</tr>", rows)
    head = format_html_join("", "<th>{}</th>", ((column,) for column in columns))
    return format_html("<p>{}</p><table><tr>{}</tr>{}</table>", sentence, head, body)
