"""Operators write rules for what jobs print, see which past failures they would have met, and put them into force."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from muster.common.errors import Conflict, Invalid
from muster.events.admin_base import ModelAdmin, OperatorsMixin, actor
from muster.logrules.models import LogRuleBook
from muster.logrules.selectors import text_in_force
from muster.logrules.services import checked_log_rules, draft_log_rules, put_log_rules_into_force


class LogRuleBookForm(forms.ModelForm):  # type: ignore[type-arg]
    """A version of the rules, which must be sound before it is stored."""

    class Meta:
        model = LogRuleBook
        fields = ["note", "text"]

    def clean_text(self) -> str:
        """The text, or what is wrong with which rule."""
        text: str = self.cleaned_data["text"]
        try:
            checked_log_rules(text)
        except Invalid as error:
            raise forms.ValidationError(error.errors[0].message) from error
        return text


@admin.register(LogRuleBook)
class LogRuleBookAdmin(OperatorsMixin, ModelAdmin[LogRuleBook]):
    """Versions of the rules. A version never changes; the one put into force last counts."""

    form = LogRuleBookForm
    list_display = ["__str__", "note", "author", "created_at", "in_force_at", "met"]
    ordering = ["-pk"]
    actions = ["put_in_force"]

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
        return {"text": text_in_force()}

    def save_model(self, request: HttpRequest, obj: LogRuleBook, form: Any, change: bool) -> None:
        """Store a new version, tried on what has failed of late."""
        book = draft_log_rules(text=obj.text, note=obj.note, actor=actor(request))
        obj.pk, obj.trial = book.pk, book.trial

    @admin.display(description="would have met")
    def met(self, book: LogRuleBook) -> str:
        """How many past failures it would have met."""
        return f"{book.trial.get('met', 0)} in {book.trial.get('tried', 0)}"

    @admin.display(description="Tried on the newest failures")
    def tried(self, book: LogRuleBook) -> SafeString:
        """Which it would have met."""
        rows = format_html_join(
            "",
            "<tr><td>{}</td><td>{}</td><td>{}</td><td><code>{}</code></td></tr>",
            ((one["job"], one["rule"], one["called"], one["line"]) for one in book.trial.get("matches", ())),
        )
        return format_html(
            "<p>{} lines in the ends of {} logs.</p>"
            "<table><tr><th>job</th><th>rule</th><th>failure</th><th>line</th></tr>{}</table>",
            book.trial.get("met", 0),
            book.trial.get("tried", 0),
            rows,
        )

    @admin.action(description="Put into force")
    def put_in_force(self, request: HttpRequest, versions: QuerySet[LogRuleBook]) -> None:
        """Look for these rules from now on."""
        if len(versions) != 1:
            messages.error(request, "Choose one version: it replaces the rules that are in force.")
            return
        try:
            put_log_rules_into_force(book=versions[0], actor=actor(request))
            messages.success(request, f"{versions[0]} is in force now.")
        except Conflict as error:
            messages.warning(request, str(error))
