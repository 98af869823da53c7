"""The operators' own rules for telling failures apart."""

from __future__ import annotations

from django.db import models

from muster.failures.versions import MAX_TEXT_CHARS, RuleVersion


class RuleBook(RuleVersion):
    """One version of all rules of the operators, as they wrote it; the version that was put into force last applies."""

    text = models.TextField(
        blank=True,
        max_length=MAX_TEXT_CHARS,
        help_text="YAML: a class, and under it rules with name, match, line and more; docs/failures.md. Empty: none.",
    )
    preview = models.JSONField(default=dict, editable=False, help_text="What it changes for past failures.")

    audit_type = "failure_rules"

    class Meta:
        verbose_name = "version of the rules"
        verbose_name_plural = "rules for failures"
        indexes = [
            models.Index(fields=["-in_force_at"], name="rules_in_force", condition=models.Q(in_force_at__isnull=False))
        ]
