"""What jobs that have ended used of what they had, and how far the events were read for it."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from muster.common.models import choices
from muster.jobs.models import Job
from scheduler.efficiency import Grade, Silence


class Efficiency(models.Model):
    """The grade of a job that has ended, by its longest run; or why it has none. Written once, by `usage.grade`.

    It is kept since the samples that it is made of are not, and since jobs are compared by it.
    """

    job = models.OneToOneField(Job, on_delete=models.CASCADE, primary_key=True, related_name="efficiency")
    attempt = models.PositiveIntegerField(help_text="The number of the run that it is about.")
    ended_at = models.DateTimeField(help_text="When that ended.")
    grade = models.CharField(max_length=10, choices=choices(Grade), blank=True, default="")
    silence = models.CharField(max_length=15, choices=choices(Silence), blank=True, default="")
    gpu_s = models.FloatField(help_text="GPU-seconds of the run.")
    utilization = models.FloatField(null=True, help_text="Mean of all GPUs, in percent.")
    idle_gpus = models.PositiveIntegerField(default=0)
    idle_gpu_s = models.FloatField(default=0, help_text="GPU-seconds in which they did nothing, if it has a grade.")
    use = models.JSONField(help_text="What was measured: gpus, and cpus and memory of a rank.")
    advice = models.JSONField(default=list)

    class Meta:
        verbose_name_plural = "efficiency"
        constraints = [
            models.CheckConstraint(
                condition=Q(grade__in=sorted(one.value for one in Grade), silence="", utilization__isnull=False)
                | Q(grade="", silence__in=sorted(one.value for one in Silence), utilization__isnull=True),
                name="efficiency_grade_or_silence",
            ),
        ]
        indexes = [models.Index(fields=["ended_at"], name="efficiency_graded", condition=~Q(grade=""))]

    def __str__(self) -> str:
        return f"efficiency of job {self.pk}"


class Reader(models.Model):
    """The place up to which events have been read; one row."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    tx = models.BigIntegerField()
    event_id = models.BigIntegerField()

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="one_reader_for_grades")]

    def __str__(self) -> str:
        return f"at {self.tx}, {self.event_id}"
