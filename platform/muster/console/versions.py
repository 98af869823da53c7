"""The admin pages of versioned rules: write a version, preview it on past failures, put it into force."""

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
from muster.console.base import ModelAdmin, OperatorsMixin, actor, never
from muster.failures.models import V
from muster.failures.selectors import text_in_force
from muster.failures.services import checked, draft, put_into_force


class VersionForm(forms.ModelForm[Any]):
    """The form of a new version; only valid rules are stored."""

    def clean_text(self) -> str:
        """Return the text; an error names the rule that is invalid."""
        text: str = self.cleaned_data["text"]
        try:
            checked(self._meta.model, text)
        except Invalid as error:
            raise forms.ValidationError(error.errors[0].message) from error
        return text


class VersionsAdmin(OperatorsMixin, ModelAdmin[V], Generic[V]):
    """Versions of one kind of rules; subclasses show the `previewed` field."""

    form = VersionForm
    ordering = ["-pk"]
    actions = ["put_in_force"]

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """A stored version never changes."""
        return obj is None and super().has_change_permission(request)

    has_delete_permission = never

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """The entered fields; a stored version also shows its author, its times and its preview."""
        return ["note", "text"] if obj is None else ["note", "text", "author", "created_at", "in_force_at", "previewed"]

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """A new version begins with the rules that are in force."""
        return {"text": text_in_force(self.model)}

    def save_model(self, request: HttpRequest, obj: V, form: Any, change: bool) -> None:
        """Store a new version with a preview on recent failures."""
        version = draft(self.model, text=obj.text, note=obj.note, actor=actor(request))
        obj.pk, obj.preview = version.pk, version.preview

    @admin.action(description="Put into force")
    def put_in_force(self, request: HttpRequest, versions: QuerySet[V]) -> None:
        """Let the version count from now on."""
        if len(versions) != 1:
            messages.error(request, "Choose one version: it replaces the rules that are in force.")
            return
        try:
            put_into_force(versions[0], actor=actor(request))
            messages.success(request, f"{versions[0]} is in force now.")
        except Conflict as error:
            messages.warning(request, str(error))


def preview_table(sentence: str, columns: tuple[str, str, str, str], rows: Sequence[tuple[object, ...]]) -> SafeString:
    """Render a preview: a sentence, and a row for each affected job with the log line in the last column."""
    cells = "<td>{}</td><td>{}</td><td>{}</td><td><code>{}</code></td>"
    body = format_html_join("", f"<tr>{cells}</tr>", rows)
    head = format_html_join("", "<th>{}</th>", ((column,) for column in columns))
    return format_html("<p>{}</p><table><tr>{}</tr>{}</table>", sentence, head, body)
