"""The admin page of Slurm's words: an edit of the table is previewed, and stored as its next version."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.widgets import UnfoldAdminTextareaWidget

from muster.common.errors import Conflict, Invalid
from muster.console.base import ModelAdmin, OperatorsMixin, ReadOnlyMixin, actor
from muster.sbatch.edits import checked_table, edit_table, meanings
from muster.sbatch.models import SlurmTable
from muster.sbatch.selectors import newest_table
from muster.sbatch.table import read_table

EXAMPLE = """\
# cluster_name: muster
# partitions:
#   gpu: {pool: main, default: true, time: 1:00:00, max_time: 3-0, max_nodes: 8, memory_per_cpu: 2G}
# accounts:
#   lab1: {tenant: vision, vc: vision-main, default: true}
# qos:
#   normal: {default: true}
#   short: {priority: high, max_time: 2:00:00}
# shared_folders: [/shared]
"""


class TableForm(forms.Form):
    """The words of the site, and the version that they were made from."""

    text = forms.CharField(
        label="Words",
        required=False,
        strip=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 24, "spellcheck": "false", "class": "font-mono"}),
        help_text="YAML. A kind without entries has Muster's own words: pools, tenants and priorities.",
    )
    version = forms.IntegerField(widget=forms.HiddenInput)

    def clean_text(self) -> str:
        """Return the text; an error names each field that is wrong."""
        text: str = self.cleaned_data["text"].replace("\r\n", "\n")
        try:
            checked_table(text)
        except Invalid as error:
            raise forms.ValidationError([f"{one.field}: {one.message}" for one in error.errors]) from error
        return text


@admin.register(SlurmTable)
class SlurmTableAdmin(ReadOnlyMixin, ModelAdmin[SlurmTable]):
    """Versions of the table. The last one holds; an edit adds one."""

    ordering = ["-version"]
    list_display = ["__str__", "author", "created_at"]
    fields = ["text", "author", "created_at", "meaning"]
    readonly_fields = ["meaning"]
    has_add_permission = OperatorsMixin.has_add_permission

    @admin.display(description="What its words mean now")
    def meaning(self, row: SlurmTable) -> SafeString:
        return _meaning_of(row.text)

    def get_urls(self) -> list[URLPattern]:
        """Replace the page of a new row by the editor."""
        own = [path("add/", self.admin_site.admin_view(self.edit_view), name="sbatch_slurmtable_add")]
        return own + super().get_urls()

    def edit_view(self, request: HttpRequest) -> HttpResponse:
        """The editor, which begins with the table that holds."""
        newest, preview = newest_table(), ""
        initial: dict[str, Any] = {"text": newest.text or EXAMPLE, "version": newest.version}
        form = TableForm(request.POST if request.method == "POST" else None, initial=initial)
        if request.method == "POST" and form.is_valid():
            if "preview" in request.POST:
                preview = _meaning_of(form.cleaned_data["text"])
            else:
                try:
                    row = edit_table(**form.cleaned_data, actor=actor(request))
                except Conflict as error:
                    form.add_error(None, error.detail)
                else:
                    messages.success(request, f"{row} holds from the next script on.".capitalize())
                    return HttpResponseRedirect(reverse("admin:sbatch_slurmtable_changelist"))
        context = self.admin_site.each_context(request) | {"title": "Slurm's words", "form": form, "preview": preview}
        return render(request, "admin/sbatch/table.html", context)


def _meaning_of(text: str) -> SafeString:
    """A row for each word."""
    words: Iterable[tuple[str, ...]] = ((one.kind, one.word, one.says) for one in meanings(read_table(text)))
    rows = format_html_join(
        "", '<tr><td class="p-2">{}</td><td class="p-2"><code>{}</code></td><td class="p-2">{}</td></tr>', words
    )
    return format_html("<table>{}</table>", rows) if rows else format_html("<p>{}</p>", "Muster's own words hold.")
