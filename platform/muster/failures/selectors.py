"""The rules in force, recent failures, and failures that no rule knows."""

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
from nodeagent.protocol.messages import MAX_TAIL_BYTES
from scheduler.diagnosis.failures import RuleError, RuleSet, builtin, read_rules
from scheduler.diagnosis.failures.log_excerpt import Cluster, clusters
from scheduler.diagnosis.failures.rules import NO_SIGNATURE

log = logging.getLogger(__name__)

# Unknown failures are read this far back, the newest ones up to this number.
_UNKNOWN_PERIOD = timedelta(days=30)
_MAX_UNKNOWN = 2_000


@dataclass(frozen=True, slots=True)
class PastFailure:
    """A failed attempt, and the end of the log of the rank that failed first."""

    job_id: int
    failure: Mapping[str, Any]
    """The stored verdict: jobs.verdicts."""
    reason: str
    status: int | None
    tail: bytes


def rules_in_force() -> RuleSet:
    """The built-in rules, preceded by the operators' rules in force."""
    found = in_force(RuleBook)
    return builtin() if found is None else _compiled(*found)


def past_failures(limit: int) -> Iterator[PastFailure]:
    """The newest attempts with a verdict, with the ends of their stored logs."""
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
    """The jobs of the last 30 days whose failure no rule knows, grouped by their last log line."""
    judged = Attempt.objects.filter(
        ended_at__gte=database_now() - _UNKNOWN_PERIOD, failure__contains={"class": NO_SIGNATURE}
    )
    rows = judged.order_by("-pk").values_list("job_id", "failure__line")[:_MAX_UNKNOWN]
    return clusters((job_id, line or "") for job_id, line in rows)


@lru_cache(maxsize=4)
def _compiled(pk: int, text: str) -> RuleSet:
    if not text.strip():
        return builtin()
    try:
        return builtin().with_rules(read_rules(text))
    except RuleError:
        # The rules were valid when they were stored, so a newer version of the platform dropped a class. Ends of jobs
        # must not wait until an operator has corrected the rules.
        log.exception("rules_refused version=%s", pk)
        return builtin()
