"""The operators' own rules for telling failures apart."""

from __future__ import annotations

from django.db import models

from muster.common.models import DatabaseNow


class RuleBook(models.Model):
    """One version of all rules of the operators, as they wrote it; the one that was last put into force counts."""

    id = models.BigAutoField(primary_key=True)
    text = models.TextField(
        blank=True,
        max_length=200_000,
        help_text="YAML: a class, and under it rules with name, match, line and more; docs/failures.md. Empty: none.",
    )
    note = models.CharField(max_length=200, blank=True, default="", help_text="What is new in it.")
    trial = models.JSONField(default=dict, editable=False, help_text="What it changes for past failures.")
    author = models.CharField(max_length=200, editable=False)
    created_at = models.DateTimeField(db_default=DatabaseNow())
    in_force_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        verbose_name = "version of the rules"
        verbose_name_plural = "rules for failures"
        indexes = [
            models.Index(fields=["-in_force_at"], name="rules_in_force", condition=models.Q(in_force_at__isnull=False))
        ]

    def __str__(self) -> str:
        return f"version {self.pk}"
