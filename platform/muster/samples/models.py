"""Samples of agents, at three resolutions: each row sums up the samples of one thing in one stretch of time.

A row's `at` is the beginning of its stretch; for each figure it keeps the mean and the largest value. What is measured
is named by plain numbers and not by foreign keys: the rows are many and short-lived, and their writers have just read
the objects that they refer to.

Rows of the finest level are added to by a statement of `muster.samples.store`, the others are made from the level below
by `muster.samples.levels`. How fast jobs are is kept beside them, by `muster.samples.speeds`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import BrinIndex
from django.db import models

from muster.common.models import unique
from muster.jobs.models import Attempt, Job

T = TypeVar("T")


class Real(models.FloatField):  # type: ignore[type-arg]
    """Four bytes: seven digits are more than any sensor has."""

    def db_type(self, connection: Any) -> str:
        """The type in Postgres."""
        return "real"


class Stretch(models.Model):
    """Samples of one thing in one stretch of time. `measures` adds the columns of what is measured."""

    at = models.DateTimeField()
    samples = models.IntegerField()

    class Meta:
        abstract = True
        indexes = [BrinIndex(fields=["at"], pages_per_range=32, name="%(class)s_at")]


def measures(*names: str) -> Callable[[T], T]:
    """Gives a kind of stretch two columns for each figure: its mean and its largest value."""

    def add(stretch: Any) -> Any:
        for name in names:
            for column in (name, f"{name}_max"):
                stretch.add_to_class(column, Real(null=True))
        return stretch

    return add


@measures("utilization", "memory_used_mib", "power_w", "temperature_c", "sm_clock_mhz", "memory_clock_mhz")
@measures("ecc_corrected", "ecc_uncorrected", "processes")
class GpuStretch(Stretch):
    """Samples of one GPU while one allocation held it; `allocation_id` is 0 while none did.

    On a GPU that jobs share each of them has its own row, with the same figures.
    """

    pk = models.CompositePrimaryKey("gpu_id", "at", "allocation_id")
    gpu_id = models.BigIntegerField()
    allocation_id = models.BigIntegerField()

    class Meta(Stretch.Meta):
        abstract = True


@measures("cpu_cores", "memory_mib", "page_cache_mib", "disk_read_bytes_s", "disk_write_bytes_s")
@measures("net_receive_bytes_s", "net_transmit_bytes_s", "processes", "progress_s")
class RankStretch(Stretch):
    """Samples of what one allocation used of its host."""

    pk = models.CompositePrimaryKey("allocation_id", "at")
    allocation_id = models.BigIntegerField()

    class Meta(Stretch.Meta):
        abstract = True


@measures("cpu_percent", "memory_used_mib", "load1")
class HostStretch(Stretch):
    """Samples of a node as a whole."""

    pk = models.CompositePrimaryKey("node_id", "at")
    node_id = models.BigIntegerField()

    class Meta(Stretch.Meta):
        abstract = True


class GpuTenSeconds(GpuStretch):
    """GPUs, by ten seconds."""


class GpuMinute(GpuStretch):
    """GPUs, by minute."""


class GpuHour(GpuStretch):
    """GPUs, by hour."""


class RankTenSeconds(RankStretch):
    """Allocations, by ten seconds."""


class RankMinute(RankStretch):
    """Allocations, by minute."""


class RankHour(RankStretch):
    """Allocations, by hour."""


class HostTenSeconds(HostStretch):
    """Nodes, by ten seconds."""


class HostMinute(HostStretch):
    """Nodes, by minute."""


class HostHour(HostStretch):
    """Nodes, by hour."""


class Speed(models.Model):
    """The progress of an attempt, and the stretch over which its speed is measured; see
    `muster.samples.speeds.Stretch`.
    """

    attempt = models.OneToOneField(Attempt, on_delete=models.CASCADE, primary_key=True, related_name="speed")
    gpu_type = models.CharField(max_length=63)
    gpus = models.PositiveIntegerField()
    at = models.DateTimeField()
    count = models.FloatField()
    beside = ArrayField(models.BigIntegerField())
    since = models.DateTimeField(null=True)
    first = models.FloatField()
    steps = models.PositiveIntegerField()
    readings = models.PositiveIntegerField(default=0)
    squares = models.FloatField(default=0.0)

    def __str__(self) -> str:
        return f"speed of {self.attempt_id}"


class SpeedAlone(models.Model):
    """A job's speed when it last ran without sharing on this number of GPUs of this type."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="speeds_alone")
    gpu_type = models.CharField(max_length=63)
    gpus = models.PositiveIntegerField()
    per_s = models.FloatField(help_text="In the job's own units.")
    deviation = models.FloatField(null=True, help_text="Of per_s, by how it varied between readings; null: too few.")
    at = models.DateTimeField()

    class Meta:
        constraints = [unique("speed_alone_once", ["job", "gpu_type", "gpus"])]

    def __str__(self) -> str:
        return f"speed of job {self.job_id} on {self.gpus} {self.gpu_type}"


class RateEstimate(models.Model):
    """The expected rate of a job on GPUs of one type; `muster.samples.rates` makes these of all measurements."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="rate_estimates")
    gpu_type = models.CharField(max_length=63)
    gpus = models.PositiveIntegerField()
    per_s = models.FloatField(help_text="In the job's own units. 0: the job does not run there.")
    deviation = models.FloatField()
    source = models.CharField(max_length=16)
    slowdown = models.FloatField(null=True, help_text="The rate on one node ÷ that on several; null: unknown.")

    class Meta:
        constraints = [unique("rate_estimate_once", ["job", "gpu_type", "gpus"])]

    def __str__(self) -> str:
        return f"rate of job {self.job_id} on {self.gpus} {self.gpu_type}"


class RateRefresh(models.Model):
    """The source of the stored estimates: one row."""

    measured_at = models.DateTimeField(null=True)
    job_id = models.BigIntegerField(default=0, help_text="The newest job at that time.")

    def __str__(self) -> str:
        return f"rates as of {self.measured_at}"


class RollUp(models.Model):
    """The time up to which a table is rolled up from the one below it. The worker that does so holds the row's lock."""

    table = models.CharField(max_length=63, primary_key=True)
    upto = models.DateTimeField(help_text="Everything before this time is in the table.")

    def __str__(self) -> str:
        return f"{self.table} up to {self.upto}"
