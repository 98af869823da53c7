"""The state of a sweep and of its members. The sweep is a `JobGroup`, and its members are its jobs."""

from __future__ import annotations

from django.db import models

from muster.jobs.models import Job, JobGroup


class Trial(models.Model):
    """A member's reports of the sweep's metric, and the decisions by them."""

    job = models.OneToOneField(Job, on_delete=models.CASCADE, primary_key=True, related_name="trial")
    value = models.FloatField(null=True, help_text="The best that it has reported.")
    value_step = models.FloatField(null=True, help_text="Where it reported that.")
    score = models.FloatField(null=True, help_text="The value, so that less is better.")
    step = models.FloatField(null=True, help_text="The highest step that it has reported.")
    readings = models.JSONField(
        default=list, help_text="At each rung that it has reached: when, and the value then; null: no finite number."
    )
    stopped_at = models.DateTimeField(null=True, help_text="When the sweep gave up on it.")
    why = models.CharField(max_length=500, default="", blank=True, help_text="Why the sweep stopped or paused it.")
    saved_gpu_s = models.FloatField(default=0, help_text="GPU-seconds that its steps to come would have cost.")

    def __str__(self) -> str:
        return f"{self.value} of job {self.job_id}"


class Progress(models.Model):
    """The progress of a sweep."""

    group = models.OneToOneField(JobGroup, on_delete=models.CASCADE, primary_key=True, related_name="progress")
    looked_at = models.DateTimeField(null=True, help_text="When its members' reports were last taken over.")
    best_so_far = models.JSONField(default=list, help_text="Seconds since the submission, and the best value then.")

    class Meta:
        verbose_name_plural = "progress"

    def __str__(self) -> str:
        return f"of sweep {self.group_id}"
