"""Numbers of jobs as Slurm writes them: `1042`, `1042_3` and `1042_[1-3,7]`."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from django.db.models import Q, QuerySet

from muster.jobs.models import Job
from muster.sbatch.values import array

_ID = re.compile(r"(\d{1,18})(?:_(?:(\d{1,9})|\[([\d,:%-]{1,10000})\]|\*))?", re.ASCII)
_MAX_INDEX = 1_000_000


@dataclass(frozen=True, slots=True)
class JobId:
    """The number of a job or an array, or of members of an array by their indices."""

    text: str
    number: int
    indices: tuple[int, ...] | None = None


def job_id(text: str) -> JobId:
    """The jobs that the text means; `ValueError` if it is no number of jobs."""
    found = _ID.fullmatch(text)
    if not found:
        raise ValueError(text)
    if found[3]:
        return JobId(text, int(found[1]), array(found[3], _MAX_INDEX).indices)
    return JobId(text, int(found[1]), (int(found[2]),) if found[2] else None)


def split_ids(text: str) -> list[str]:
    """The numbers of a list, between commas that stand outside of brackets."""
    return [part.strip() for part in re.split(r",(?![^\[]*\])", text) if part.strip()]


def with_ids(jobs: QuerySet[Job], ids: Collection[JobId]) -> QuerySet[Job]:
    """Those of the jobs that one of the numbers means."""
    numbers = [one.number for one in ids if one.indices is None]
    condition = Q(pk__in=numbers) | Q(group__in=numbers)
    for one in ids:
        if one.indices is not None:
            condition |= Q(group=one.number, array_index__in=one.indices)
    return jobs.filter(condition)
