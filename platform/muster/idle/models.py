"""How idle the attempts that run are, as far as their readings were read."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from muster.jobs.models import Attempt


class IdleWatch(models.Model):
    """What was counted of one attempt, and what its owner was told; the row goes when the attempt has ended.

    `counts` has a `scheduler.diagnosis.idle.Count` for each rule that the job is under.
    """

    attempt = models.OneToOneField(Attempt, on_delete=models.CASCADE, primary_key=True, related_name="idle_watch")
    counts = models.JSONField(default=dict)
    warned_at = models.DateTimeField(null=True, help_text="When its owner was told; empty while it is at work.")
    since = models.DateTimeField(null=True, help_text="Since when it is idle.")
    stop_at = models.DateTimeField(null=True, help_text="When it is stopped if that goes on.")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(warned_at__isnull=True, since__isnull=True, stop_at__isnull=True)
                | Q(warned_at__isnull=False, since__isnull=False),
                name="idle_watch_warned_since",
            )
        ]

    def __str__(self) -> str:
        return f"watch of attempt {self.attempt_id}"
