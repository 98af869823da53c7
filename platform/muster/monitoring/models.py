"""Reports of running jobs on their training, the advice to their owners, and the idle time of the jobs."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from muster.common.models import DatabaseNow, check, choices, index, one_of, unique
from muster.fleet.models import Pool
from muster.jobs.models import Allocation, Attempt, Job
from scheduler.diagnosis.training import Kind


class Series(models.Model):
    """One metric of an attempt over its steps, bounded in size: a `Curve` in columns."""

    id = models.BigAutoField(primary_key=True)
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="series", db_index=False)
    name = models.CharField(max_length=64)
    from_log = models.BooleanField(help_text="Read from lines of the log; else the job reported it.")
    steps = ArrayField(models.FloatField(), default=list)
    values = ArrayField(models.FloatField(), default=list)
    stride = models.PositiveIntegerField(default=1)
    count = models.PositiveIntegerField(default=0)
    finite = models.PositiveIntegerField(default=0)
    total = models.FloatField(default=0)
    last_step = models.FloatField(null=True)
    last_value = models.FloatField(null=True)
    odd_run = models.PositiveIntegerField(default=0)
    at = models.DateTimeField(db_default=DatabaseNow())
    fresh = models.BooleanField(default=True, help_text="Whether nobody has looked at it since it changed.")

    class Meta:
        verbose_name_plural = "series"
        constraints = [unique("series_once", ["attempt", "name"])]
        indexes = [index("series_fresh", ["id"], Q(fresh=True)), index("series_by_age", ["at"])]

    def __str__(self) -> str:
        return f"{self.name} of attempt {self.attempt_id}"


class JobAdvice(models.Model):
    """Advice to a job's owner about its training; each kind once."""

    id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="advice", db_index=False)
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=10, choices=choices(Kind))
    text = models.CharField(max_length=300)
    step = models.FloatField()
    at = models.DateTimeField(db_default=DatabaseNow())

    class Meta:
        verbose_name_plural = "advice"
        constraints = [one_of("kind", Kind, name="advice_kind_known"), unique("advice_once", ["job", "kind"])]

    def __str__(self) -> str:
        return f"{self.kind} of job {self.job_id}"


class LogPlace(models.Model):
    """The offset up to which a rank's log has been read for losses."""

    allocation = models.OneToOneField(Allocation, on_delete=models.CASCADE, primary_key=True, related_name="+")
    offset = models.BigIntegerField(default=0)
    base = models.FloatField(default=0, help_text="What is added to steps, which may begin anew with each epoch.")
    last = models.FloatField(null=True, help_text="The step of the last line that has one.")

    def __str__(self) -> str:
        return f"at {self.offset} of allocation {self.allocation_id}"


class FailureRate(models.Model):
    """The recent rate of failures of a pool's nodes under jobs."""

    pool = models.OneToOneField(Pool, on_delete=models.CASCADE, primary_key=True, related_name="failure_rate")
    failures = models.PositiveIntegerField()
    node_hours = models.FloatField()
    at = models.DateTimeField(db_default=DatabaseNow())

    def __str__(self) -> str:
        return f"{self.failures} in {self.node_hours:.0f} hours of nodes"


class IdleWatch(models.Model):
    """A `scheduler.diagnosis.idle.Count` for each rule that an attempt is under, and what its owner was told; it goes
    when the attempt has ended."""

    attempt = models.OneToOneField(Attempt, on_delete=models.CASCADE, primary_key=True, related_name="idle_watch")
    counts = models.JSONField(default=dict)
    warned_at = models.DateTimeField(null=True, help_text="When its owner was told; empty while it is at work.")
    since = models.DateTimeField(null=True, help_text="Since when it is idle.")
    stop_at = models.DateTimeField(null=True, help_text="When it is stopped if that goes on.")

    class Meta:
        constraints = [
            check(
                "idle_watch_warned_since",
                Q(warned_at__isnull=True, since__isnull=True, stop_at__isnull=True)
                | Q(warned_at__isnull=False, since__isnull=False),
            )
        ]

    def __str__(self) -> str:
        return f"watch of attempt {self.attempt_id}"
