"""The operators' table of Slurm's words, version by version."""

from __future__ import annotations

from django.db import models

from muster.common.models import DatabaseNow

MAX_TABLE_CHARS = 200_000


class SlurmTable(models.Model):
    """A version of the table. It never changes, and the last one holds."""

    version = models.PositiveIntegerField(primary_key=True)
    text = models.TextField(blank=True, max_length=MAX_TABLE_CHARS, help_text="YAML; see docs/operator/slurm.md.")
    author = models.CharField(max_length=150)
    created_at = models.DateTimeField(db_default=DatabaseNow())

    class Meta:
        verbose_name = "version of Slurm's words"
        verbose_name_plural = "Slurm's words"

    def __str__(self) -> str:
        return f"version {self.version}"
