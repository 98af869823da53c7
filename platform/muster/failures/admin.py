"""Operators write rules for failures here, see what they change for past jobs, and put them into force."""

from __future__ import annotations

from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from muster.common.errors import Conflict, Invalid
from muster.events.admin_base import ModelAdmin, OperatorsMixin, actor
from muster.failures.models import RuleBook
from muster.failures.selectors import text_in_force, unknown_failures
from muster.failures.services import checked, draft_rules, put_into_force, with_rule
from scheduler.failures import Retry, builtin

_CLUSTERS_SHOWN = 100


class RuleBookForm(forms.ModelForm):  # type: ignore[type-arg]
    """A version of the rules, which must be sound before it is stored."""

    class Meta:
        model = RuleBook
        fields = ["note", "text"]

    def clean_text(self) -> str:
        """The text, or what is wrong with which rule."""
        text: str = self.cleaned_data["text"]
        try:
            checked(text)
        except Invalid as error:
            raise forms.ValidationError(error.errors[0].message) from error
        return text


class RuleForm(forms.Form):
    """One new rule, made of jobs that nobody could name."""

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
class RuleBookAdmin(OperatorsMixin, ModelAdmin[RuleBook]):
    """Versions of the operators' rules. A version never changes; the one put into force last counts."""

    form = RuleBookForm
    list_display = ["__str__", "note", "author", "created_at", "in_force_at", "changed"]
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

    def save_model(self, request: HttpRequest, obj: RuleBook, form: Any, change: bool) -> None:
        """Store a new version, tried on what has failed of late."""
        book = draft_rules(text=obj.text, note=obj.note, actor=actor(request))
        obj.pk, obj.trial = book.pk, book.trial

    @admin.display(description="changes")
    def changed(self, book: RuleBook) -> str:
        """How many past failures it would call otherwise."""
        return f"{book.trial.get('changed', 0)} of {book.trial.get('tried', 0)}"

    @admin.display(description="Tried on the newest failures")
    def tried(self, book: RuleBook) -> SafeString:
        """What it would call otherwise."""
        rows = format_html_join(
            "",
            "<tr><td>{}</td><td>{}</td><td>{}</td><td><code>{}</code></td></tr>",
            ((one["job"], one["before"], one["after"], one["line"]) for one in book.trial.get("changes", ())),
        )
        return format_html(
            "<p>{} of {} are called otherwise.</p><table><tr><th>job</th><th>before</th><th>now</th><th>line</th></tr>"
            "{}</table>",
            book.trial.get("changed", 0),
            book.trial.get("tried", 0),
            rows,
        )

    @admin.action(description="Put into force")
    def put_in_force(self, request: HttpRequest, versions: QuerySet[RuleBook]) -> None:
        """Judge by the version from now on."""
        if len(versions) != 1:
            messages.error(request, "Choose one version: it replaces the rules that are in force.")
            return
        try:
            put_into_force(book=versions[0], actor=actor(request))
            messages.success(request, f"{versions[0]} is in force now.")
        except Conflict as error:
            messages.warning(request, str(error))

    def get_urls(self) -> list[URLPattern]:
        """The pages of unknown failures beside the usual ones."""
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
                text = with_rule(text_in_force(), failure=values["failure"], rule=rule)
                book = draft_rules(text=text, note=f"rule {values['name']}", actor=actor(request))
            except Invalid as error:
                form.add_error(None, error.errors[0].message)
            else:
                return HttpResponseRedirect(reverse("admin:failures_rulebook_change", args=[book.pk]))
        context = self.admin_site.each_context(request) | {"title": "A rule for a failure", "form": form}
        return render(request, "admin/failures/rule.html", context)
