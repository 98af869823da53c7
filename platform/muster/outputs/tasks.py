"""Celery: what removes files that were kept long enough."""

from __future__ import annotations

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from muster.outputs.models import HELD, OutputFile
from muster.outputs.store import forget

JOBS_AT_ONCE = 500


@shared_task(name="outputs.forget")
def forget_old_outputs() -> int:
    """Remove the files of jobs that ended too long ago; returns how many."""
    before = timezone.now() - settings.OUTPUTS_KEPT_FOR
    old = OutputFile.objects.filter(state__in=HELD, job__ended_at__lt=before)
    return forget(list(old.values_list("job_id", flat=True).distinct()[:JOBS_AT_ONCE]))
