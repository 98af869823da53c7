"""The admin pages of log rules: write a version, preview it on past failures, put it into force."""

from __future__ import annotations

from django.contrib import admin
from django.utils.safestring import SafeString

from muster.console.versions import VersionForm, VersionsAdmin, preview_table
from muster.logrules.models import LogRuleBook
from muster.logrules.services import checked_log_rules, draft_log_rules, put_log_rules_into_force


class LogRuleBookForm(VersionForm):
    """A version of the rules."""

    class Meta:
        model = LogRuleBook
        fields = ["note", "text"]

    def require_valid(self, text: str) -> None:
        """Accept valid rules."""
        checked_log_rules(text)


@admin.register(LogRuleBook)
class LogRuleBookAdmin(VersionsAdmin[LogRuleBook]):
    """Versions of the rules. A version never changes; the version put into force last applies."""

    form = LogRuleBookForm
    list_display = ["__str__", "note", "author", "created_at", "in_force_at", "met"]

    def draft(self, *, text: str, note: str, actor: str) -> LogRuleBook:
        """Store a new version with its preview."""
        return draft_log_rules(text=text, note=note, actor=actor)

    def enforce(self, version: LogRuleBook, *, actor: str) -> None:
        """Apply these rules from now on."""
        put_log_rules_into_force(book=version, actor=actor)

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
