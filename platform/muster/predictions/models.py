"""The trained models, a row for each version; the policies of pools run forward; and forecasts of waits."""

from __future__ import annotations

from enum import StrEnum

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from muster.common.models import DatabaseNow, check, choices, empty_when, index, one_of
from muster.events.models import EventReader
from muster.fleet.models import Pool
from muster.jobs.models import Job


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


class WaitOutcome(StrEnum):
    """The end of a wait."""

    WAITS = "waits"
    STARTED = "started"
    LEFT = "left"  # the job ended without a start


class WaitRecord(models.Model):
    """A job's wait for its first start: its features, the forecasts from them, and the outcome.

    Features and forecasts are as of the submission, or as of the moment at which the job became able to start, if that
    came later. The job's row stays as it was: this one is written behind it.
    """

    job = models.OneToOneField(Job, on_delete=models.CASCADE, primary_key=True, related_name="wait")
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="+", db_index=False)
    version = models.PositiveSmallIntegerField(help_text="Of the features: scheduler.predict.waits.features.")
    features = ArrayField(models.FloatField())
    forecasts = models.JSONField(default=dict, help_text="By source: quick, p10_s, p50_s and p90_s; empty without any.")
    submitted = models.JSONField(
        null=True, help_text="What `forecasts` was at the submission, if the job could not start then."
    )
    counted = models.JSONField(default=dict, help_text="The levels that have been counted for the calibration.")
    eligible_at = models.DateTimeField(null=True, help_text="From when on it could start; null: not yet.")
    due_at = models.DateTimeField(null=True, help_text="When the wait outlives its p90; null: that has been counted.")
    outcome = models.CharField(max_length=7, choices=choices(WaitOutcome), default=WaitOutcome.WAITS)
    over_at = models.DateTimeField(null=True, help_text="When it got its GPUs, or left.")

    class Meta:
        constraints = [
            one_of("outcome", WaitOutcome, name="wait_outcome_known"),
            empty_when("over_at", "wait_over_at", outcome=WaitOutcome.WAITS),
        ]
        indexes = [
            index("wait_of_pool", ["pool", "eligible_at"]),
            index("wait_started", ["pool", "-over_at"], Q(outcome=WaitOutcome.STARTED)),
            index("wait_due", ["due_at"], Q(outcome=WaitOutcome.WAITS, due_at__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"wait of job {self.pk}"


class WaitCalibration(models.Model):
    """The corrections that the waits of a pool have taught, and the weights of its two forecasts."""

    pool = models.OneToOneField(Pool, on_delete=models.CASCADE, primary_key=True, related_name="+")
    state = models.JSONField(default=dict, help_text="scheduler.predict.waits.online.")
    alarm = models.BooleanField(default=False, help_text="Whether operators were told that its forecasts drift.")

    def __str__(self) -> str:
        return f"calibration of {self.pool_id}"


class WaitReader(EventReader):
    """The last event that has been read for waits."""

    class Meta:
        constraints = [check("one_reader_for_waits", Q(id=1))]
