"""The trained models, a row for each version, and the policies of pools run forward."""

from __future__ import annotations

from enum import StrEnum

from django.db import models
from django.db.models import Q

from muster.common.models import DatabaseNow, choices, one_of
from muster.fleet.models import Pool


class Kind(StrEnum):
    """The quantity that a model predicts."""

    RUN_TIME = "run_time"
    WAIT = "wait"


class PredictorModel(models.Model):
    """A trained model. One of each kind and pool is active; a model without a pool serves all pools."""

    id = models.BigAutoField(primary_key=True)
    kind = models.CharField(max_length=8, choices=choices(Kind))
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, null=True, related_name="+")
    version = models.PositiveIntegerField(help_text="Counts the models of this kind and pool, from 1.")
    trained_at = models.DateTimeField(db_default=DatabaseNow())
    rows = models.PositiveIntegerField(help_text="On which it was trained.")
    scores = models.JSONField(default=dict, help_text="On the newest tenth, which it was not trained on when scored.")
    data = models.BinaryField(help_text="The trees as arrays: scheduler.predict.")
    active = models.BooleanField(default=False)

    class Meta:
        constraints = [
            one_of("kind", Kind, name="predictor_kind_known"),
            models.UniqueConstraint(
                fields=["kind", "pool", "version"], nulls_distinct=False, name="predictor_version_once"
            ),
            models.UniqueConstraint(
                fields=["kind", "pool"], condition=Q(active=True), nulls_distinct=False, name="predictor_active_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} model {self.version}"


class PoolForward(models.Model):
    """The newest run of a pool's policy forward from its snapshot, or why it failed."""

    pool = models.OneToOneField(Pool, on_delete=models.CASCADE, primary_key=True, related_name="+")
    at = models.DateTimeField(help_text="The moment of the snapshot.")
    took_s = models.FloatField(help_text="The next run comes after twenty times as long.")
    data = models.JSONField(null=True, help_text="scheduler.forward.answer, without its jobs. Null: it failed.")
    jobs = models.JSONField(default=dict, help_text="The rows of its jobs, by id.")
    error = models.TextField(blank=True, default="", help_text="Why it failed.")

    def __str__(self) -> str:
        return f"forward run of pool {self.pool_id} at {self.at}"
