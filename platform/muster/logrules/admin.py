"""Operators write rules for what jobs print, see which past failures they would have met, and put them into force."""

from __future__ import annotations

from django.contrib import admin
from django.utils.safestring import SafeString

from muster.failures.admin_versions import VersionForm, VersionsAdmin, trial_table
from muster.logrules.models import LogRuleBook
from muster.logrules.services import checked_log_rules, draft_log_rules, put_log_rules_into_force


class LogRuleBookForm(VersionForm):
    """A version of the rules."""

    class Meta:
        model = LogRuleBook
        fields = ["note", "text"]

    def require_sound(self, text: str) -> None:
        """Return for sound rules."""
        checked_log_rules(text)


@admin.register(LogRuleBook)
class LogRuleBookAdmin(VersionsAdmin[LogRuleBook]):
    """Versions of the rules. A version never changes; the one put into force last counts."""

    form = LogRuleBookForm
    list_display = ["__str__", "note", "author", "created_at", "in_force_at", "met"]

    def draft(self, *, text: str, note: str, actor: str) -> LogRuleBook:
        """A new version, tried and stored."""
        return draft_log_rules(text=text, note=note, actor=actor)

    def enforce(self, version: LogRuleBook, *, actor: str) -> None:
        """Look for these rules from now on."""
        put_log_rules_into_force(book=version, actor=actor)

    @admin.display(description="would have met")
    def met(self, book: LogRuleBook) -> str:
        """How many past failures it would have met."""
        return f"{book.trial.get('met', 0)} in {book.trial.get('tried', 0)}"

    @admin.display(description="Tried on the newest failures")
    def tried(self, book: LogRuleBook) -> SafeString:
        """Which it would have met."""
        rows = [(one["job"], one["rule"], one["called"], one["line"]) for one in book.trial.get("matches", ())]
        found = f"{book.trial.get('met', 0)} lines in the ends of {book.trial.get('tried', 0)} logs."
        return trial_table(found, ("job", "rule", "failure", "line"), rows)
