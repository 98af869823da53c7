"""The sentence on a job's use of its GPUs in the notice of its end. An app above this one gives the grades."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

from django.db import transaction

from muster.notices.wording import Grade

log = logging.getLogger(__name__)

Grading = Callable[[Collection[int]], Mapping[int, Grade]]

_gradings: list[Grading] = []


def grade_by(grading: Grading) -> None:
    """Ask this for the grades of jobs that have ended. It is registered once, when Django starts."""
    _gradings[:] = [grading]


def grades_of(job_ids: Collection[int]) -> Mapping[int, Grade]:
    """The grades of those jobs that have one. Where that fails their ends are told without."""
    if not job_ids:
        return {}
    grades: dict[int, Grade] = {}
    for grading in _gradings:
        try:
            # A savepoint: the transaction that stores the notices goes on.
            with transaction.atomic():
                grades.update(grading(job_ids))
        except Exception:
            log.exception("grades_failed jobs=%s", len(job_ids))
    return grades
