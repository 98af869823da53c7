"""Which rules are in force, what failed of late, and what nobody could name."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any

from muster.common.clock import database_now
from muster.failures.models import RuleBook
from muster.failures.versions import in_force
from muster.jobs.models import Allocation, Attempt
from muster.logs.store import read
from nodeagent.protocol import MAX_TAIL_BYTES
from scheduler.diagnosis.failures import RuleError, RuleSet, builtin, read_rules
from scheduler.diagnosis.failures.log_excerpt import Cluster, clusters
from scheduler.diagnosis.failures.rules import NO_SIGNATURE

log = logging.getLogger(__name__)

# So far back, and no more than so many, are looked at.
_OF_LATE = timedelta(days=30)
_MOST_UNKNOWN = 2_000


@dataclass(frozen=True, slots=True)
class PastFailure:
    """An attempt that has failed, and the end of what its first failed rank printed."""

    job_id: int
    failure: Mapping[str, Any]
    """What was said of it: jobs.verdicts."""
    reason: str
    status: int | None
    tail: bytes


def rules_in_force() -> RuleSet:
    """The built-in rules with those of the operators before them."""
    found = in_force(RuleBook)
    return builtin() if found is None else _compiled(*found)


def past_failures(limit: int) -> Iterator[PastFailure]:
    """The newest attempts that were judged by their logs, with what is stored of these."""
    attempts = Attempt.objects.filter(failure__isnull=False).order_by("-pk")[:limit]
    for attempt in attempts:
        failure: Mapping[str, Any] = attempt.failure or {}
        rank = failure.get("rank") or 0
        allocation = Allocation.objects.filter(attempt=attempt, rank=rank).select_related("log_file").first()
        if allocation is None or not hasattr(allocation, "log_file"):
            continue
        size = allocation.log_file.size
        tail = read(allocation, start=max(0, size - MAX_TAIL_BYTES), end=size)
        yield PastFailure(attempt.job_id, failure, attempt.reason, attempt.exit_code, tail)


def unknown_failures() -> list[Cluster]:
    """The jobs of late whose failure no rule knows, by what they said last."""
    judged = Attempt.objects.filter(ended_at__gte=database_now() - _OF_LATE, failure__contains={"class": NO_SIGNATURE})
    rows = judged.order_by("-pk").values_list("job_id", "failure__line")[:_MOST_UNKNOWN]
    return clusters((job_id, line or "") for job_id, line in rows)


@lru_cache(maxsize=4)
def _compiled(pk: int, text: str) -> RuleSet:
    if not text.strip():
        return builtin()
    try:
        return builtin().with_rules(read_rules(text))
    except RuleError:
        # They were sound when they were written, so a newer version of the platform knows a class no more. A job's end
        # must not wait until somebody has mended that.
        log.exception("rules_refused version=%s", pk)
        return builtin()
