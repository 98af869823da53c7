"""The operators' log rules, and the jobs whose logs they matched."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from muster.common.models import DatabaseNow
from muster.failures.versions import MAX_TEXT_CHARS, RuleVersion
from muster.jobs.models import Allocation, Job


class LogRuleBook(RuleVersion):
    """One version of all rules, as the operators wrote it; the version that was put into force last applies."""

    text = models.TextField(
        blank=True,
        max_length=MAX_TEXT_CHARS,
        help_text="YAML: a name, and under it match, line, actions and more; docs/failures.md. Empty: no rules.",
    )
    preview = models.JSONField(default=dict, editable=False, help_text="Which past failures it would have met.")

    audit_type = "log_rules"

    class Meta:
        verbose_name = "version of the rules for logs"
        verbose_name_plural = "rules for logs"
        indexes = [
            models.Index(fields=["-in_force_at"], name="log_rules_in_force", condition=Q(in_force_at__isnull=False))
        ]


class LogMatch(models.Model):
    """The first line of a job that a rule matched; one row for each job and rule."""

    id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="log_matches", db_index=False)
    rule = models.CharField(max_length=60)
    allocation = models.ForeignKey(Allocation, on_delete=models.CASCADE, related_name="+")
    actions = models.JSONField()
    line = models.CharField(max_length=400)
    at = models.DateTimeField(db_default=DatabaseNow())

    class Meta:
        verbose_name_plural = "log matches"
        constraints = [models.UniqueConstraint(fields=["job", "rule"], name="log_match_once")]

    def __str__(self) -> str:
        return f"{self.rule} of job {self.job_id}"
