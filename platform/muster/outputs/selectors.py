"""The files of a job, and summaries of those that were left out."""

from __future__ import annotations

from django.conf import settings
from django.db.models import Count, Q, QuerySet, Sum

from muster.common.clock import moment
from muster.common.errors import NotFound
from muster.common.rows import require_first
from muster.jobs.models import Allocation, Job
from muster.outputs.models import HELD, Collection, FileState, OutputFile
from muster.outputs.store import MAX_FILES
from muster_client.answers.outputs import OutputsSummary
from scheduler.model.lifecycle import AllocationState
from scheduler.model.reasons import Reason, reasons_where

# The agent of a rank that ended so has nothing to tell, or may never be heard of again.
_NEVER_RAN = {"", Reason.NEVER_STARTED, Reason.NOT_CLAIMED}
_LOST = reasons_where(lambda meaning: meaning.is_departure)


def files_of(job: Job, *, attempt: int | None = None) -> QuerySet[OutputFile]:
    """The job's files, those of the latest attempt first, and of each attempt in the order of ranks."""
    files = OutputFile.objects.filter(job=job).select_related("allocation__attempt")
    if attempt is not None:
        files = files.filter(allocation__attempt__number=attempt)
    return files.order_by("-allocation__attempt_id", "allocation__rank", "id")


def behind(files: QuerySet[OutputFile], attempt_id: int, rank: int, file_id: int) -> QuerySet[OutputFile]:
    """Those of the files that come after this place in their order."""
    same = Q(allocation__attempt_id=attempt_id)
    return files.filter(
        Q(allocation__attempt_id__lt=attempt_id)
        | same & Q(allocation__rank__gt=rank)
        | same & Q(allocation__rank=rank, id__gt=file_id)
    )


def kept_file(job: Job, file_id: int) -> OutputFile:
    """The file, if it is the job's and whole."""
    file = require_first(OutputFile.objects.filter(job=job, pk=file_id), f"job {job.pk} has no file {file_id}")
    if file.state != FileState.KEPT:
        raise NotFound(f"file {file_id} of job {job.pk} is not here: {file.state}")
    return file


def summary_of(job: Job) -> OutputsSummary:
    """A summary of the job's files, in three queries."""
    held = OutputFile.objects.filter(job=job, state__in=HELD).aggregate(files=Count("pk"), bytes=Sum("size"))
    told = Collection.objects.filter(allocation__attempt__job=job).aggregate(
        more=Sum("more"), cut=Count("pk", filter=Q(cut_short=True))
    )
    silent = Q(outputs__isnull=True) | Q(outputs__finished_at__isnull=True)
    over = Q(state=AllocationState.RELEASED)
    ranks = Allocation.objects.filter(silent, attempt__job=job, claimed_at__isnull=False).aggregate(
        pending=Count(
            "pk", filter=Q(attempt__number=job.attempt_count) & ~(over & Q(end_reason__in=_NEVER_RAN | _LOST))
        ),
        lost=Count("pk", filter=over & Q(end_reason__in=_LOST)),
    )
    patterns = list(job.spec.get("outputs", ()))
    return {
        "patterns": patterns,
        "kept_files": held["files"],
        "kept_bytes": held["bytes"] or 0,
        "most_files": MAX_FILES,
        "most_bytes": settings.OUTPUTS_MAX_BYTES,
        "kept_until": moment(job.ended_at + settings.OUTPUTS_KEPT_FOR if job.ended_at else None),
        "pending": ranks["pending"] if patterns else 0,
        "lost": ranks["lost"] if patterns else 0,
        "unnamed": told["more"] or 0,
        "cut_short": bool(told["cut"]),
    }
