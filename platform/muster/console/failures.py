"""The admin pages of rules for failures and for logs: write a version, preview it on past failures, enforce it."""

from __future__ import annotations

from typing import Any, cast

from django import forms
from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from muster.common.errors import Invalid
from muster.console.base import actor
from muster.console.versions import VersionsAdmin, preview_table
from muster.failures.models import LogRuleBook, RuleBook
from muster.failures.selectors import text_in_force, unknown_failures
from muster.failures.services import draft, with_rule
from scheduler.diagnosis.failures import Retry, builtin

_CLUSTERS_SHOWN = 100


class RuleForm(forms.Form):
    """One new rule, made from a cluster of unknown failures."""

    failure = forms.ChoiceField(label="Class", widget=UnfoldAdminSelectWidget)
    name = forms.SlugField(max_length=60, widget=UnfoldAdminTextInputWidget, help_text="Names the rule in messages.")
    match = forms.CharField(
        max_length=4_000, widget=UnfoldAdminTextInputWidget, help_text="A pattern of RE2, on one line, any case."
    )
    line = forms.CharField(
        max_length=400,
        strip=False,
        widget=UnfoldAdminTextInputWidget,
        help_text="A line that it matches: its own test.",
    )
    retry = forms.ChoiceField(
        required=False, widget=UnfoldAdminSelectWidget, help_text="Instead of what the class says."
    )
    hint = forms.CharField(
        required=False, max_length=400, widget=UnfoldAdminTextareaWidget, help_text="Instead of the class's."
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        classes = [(name, name) for name in sorted(builtin().classes)]
        choices = {"failure": classes, "retry": [("", "as the class"), *((one.value, one.value) for one in Retry)]}
        for name, values in choices.items():
            cast("forms.ChoiceField", self.fields[name]).choices = values


@admin.register(RuleBook)
class RuleBookAdmin(VersionsAdmin[RuleBook]):
    """Versions of the operators' rules. A version never changes; the one put into force last counts."""

    list_display = ["__str__", "note", "author", "created_at", "in_force_at", "changed"]

    @admin.display(description="changes")
    def changed(self, book: RuleBook) -> str:
        """The number of past failures that the version would classify differently."""
        return f"{book.preview.get('changed', 0)} of {book.preview.get('tried', 0)}"

    @admin.display(description="Preview on the newest failures")
    def previewed(self, book: RuleBook) -> SafeString:
        """The past failures that the version would classify differently."""
        rows = [(one["job"], one["before"], one["after"], one["line"]) for one in book.preview.get("changes", ())]
        found = f"{book.preview.get('changed', 0)} of {book.preview.get('tried', 0)} would be classified differently."
        return preview_table(found, ("job", "before", "now", "line"), rows)

    def get_urls(self) -> list[URLPattern]:
        """Add the pages of unknown failures."""
        own = [
            path("unknown/", self.admin_site.admin_view(self.unknown_view), name="failures_unknown"),
            path("unknown/rule/", self.admin_site.admin_view(self.rule_view), name="failures_rule"),
        ]
        return own + super().get_urls()

    def unknown_view(self, request: HttpRequest) -> HttpResponse:
        """The clusters of unknown failures, the largest first."""
        context = self.admin_site.each_context(request) | {
            "title": "Unknown failures",
            "clusters": unknown_failures()[:_CLUSTERS_SHOWN],
        }
        return render(request, "admin/failures/unknown.html", context)

    def rule_view(self, request: HttpRequest) -> HttpResponse:
        """The form that makes a rule of a cluster."""
        form = RuleForm(request.POST if request.method == "POST" else None, initial=request.GET.dict())
        if request.method == "POST" and form.is_valid():
            values = form.cleaned_data
            rule = {name: values[name] for name in ("name", "match", "line", "hint", "retry")}
            try:
                text = with_rule(text_in_force(RuleBook), failure=values["failure"], rule=rule)
                book = draft(RuleBook, text=text, note=f"rule {values['name']}", actor=actor(request))
            except Invalid as error:
                form.add_error(None, error.errors[0].message)
            else:
                return HttpResponseRedirect(reverse("admin:failures_rulebook_change", args=[book.pk]))
        context = self.admin_site.each_context(request) | {"title": "A rule for a failure", "form": form}
        return render(request, "admin/failures/rule.html", context)


@admin.register(LogRuleBook)
class LogRuleBookAdmin(VersionsAdmin[LogRuleBook]):
    """Versions of the rules. A version never changes; the version put into force last applies."""

    list_display = ["__str__", "note", "author", "created_at", "in_force_at", "met"]

    @admin.display(description="would have matched")
    def met(self, book: LogRuleBook) -> str:
        """The number of matches in the logs of past failures."""
        return f"{book.preview.get('met', 0)} in {book.preview.get('tried', 0)}"

    @admin.display(description="Preview on the newest failures")
    def previewed(self, book: LogRuleBook) -> SafeString:
        """The log lines of past failures that the version would have matched."""
        rows = [(one["job"], one["rule"], one["called"], one["line"]) for one in book.preview.get("matches", ())]
        met, searched = book.preview.get("met", 0), book.preview.get("tried", 0)
        found = f"Lines that match: {met}, in the ends of the logs of {searched} failures."
        return preview_table(found, ("job", "rule", "failure", "line"), rows)
