"""The rules of operators for telling failures apart and for lines of logs, and the lines that the latter matched."""

from __future__ import annotations

from typing import TypeVar

from django.db import models
from django.db.models import Q

from muster.common.models import DatabaseNow, index, unique
from muster.jobs.models import Allocation, Job

_MAX_TEXT_CHARS = 200_000


class RuleVersion(models.Model):
    """One version of all rules of a kind. It never changes, and the version put into force last applies.

    `preview` is what the version would change for past failures, computed when it was drafted.
    """

    id = models.BigAutoField(primary_key=True)
    text = models.TextField(blank=True, max_length=_MAX_TEXT_CHARS)
    note = models.CharField(max_length=200, blank=True, default="", help_text="What is new in it.")
    preview = models.JSONField(default=dict, editable=False)
    author = models.CharField(max_length=200, editable=False)
    created_at = models.DateTimeField(db_default=DatabaseNow())
    in_force_at = models.DateTimeField(null=True, editable=False)

    audit_type = ""
    """The name of these rules in the audit log."""

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"version {self.pk}"


V = TypeVar("V", bound=RuleVersion)


class RuleBook(RuleVersion):
    """Rules that classify failures."""

    text = models.TextField(
        blank=True,
        max_length=_MAX_TEXT_CHARS,
        help_text="YAML: a class, and under it rules with name, match, line; see docs/user/failures.md. Empty: none.",
    )
    preview = models.JSONField(default=dict, editable=False, help_text="What it changes for past failures.")

    audit_type = "failure_rules"

    class Meta:
        verbose_name = "version of the rules"
        verbose_name_plural = "rules for failures"
        indexes = [index("rules_in_force", ["-in_force_at"], Q(in_force_at__isnull=False))]


class LogRuleBook(RuleVersion):
    """Rules for lines of running jobs' logs."""

    text = models.TextField(
        blank=True,
        max_length=_MAX_TEXT_CHARS,
        help_text="YAML: a name, and under it match, line, actions and more; docs/user/failures.md. Empty: no rules.",
    )
    preview = models.JSONField(default=dict, editable=False, help_text="Which past failures it would have met.")

    audit_type = "log_rules"

    class Meta:
        verbose_name = "version of the rules for logs"
        verbose_name_plural = "rules for logs"
        indexes = [index("log_rules_in_force", ["-in_force_at"], Q(in_force_at__isnull=False))]


class LogMatch(models.Model):
    """The first line of a job that a log rule matched; one row for each job and rule."""

    id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="log_matches", db_index=False)
    rule = models.CharField(max_length=60)
    allocation = models.ForeignKey(Allocation, on_delete=models.CASCADE, related_name="+")
    actions = models.JSONField()
    line = models.CharField(max_length=400)
    at = models.DateTimeField(db_default=DatabaseNow())

    class Meta:
        verbose_name_plural = "log matches"
        constraints = [unique("log_match_once", ["job", "rule"])]

    def __str__(self) -> str:
        return f"{self.rule} of job {self.job_id}"
