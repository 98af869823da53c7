"""The rules in force, the jobs that log rules matched, recent failures, and failures that no rule knows."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any

from muster.common.clock import database_now
from muster.failures.models import LogMatch, LogRuleBook, RuleBook, RuleVersion
from muster.jobs.models import Allocation, Attempt, Job
from muster.logs.store import read
from nodeagent.protocol.messages import MAX_TAIL_BYTES
from scheduler.diagnosis.failures import RuleError, RuleSet, builtin, read_rules
from scheduler.diagnosis.failures.log_excerpt import Cluster, clusters
from scheduler.diagnosis.failures.rules import NO_SIGNATURE
from scheduler.diagnosis.logrules import LogRules, read_log_rules

log = logging.getLogger(__name__)

LOG_RULES_KEPT_S = 5.0
"""For so long a process uses the log rules that it has read: a chunk of a log must not cost a query for them."""

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


def in_force(kind: type[RuleVersion]) -> tuple[int, str] | None:
    """The id and the text of the version in force; None if no version was ever put into force."""
    put = kind._default_manager.filter(in_force_at__isnull=False).order_by("-in_force_at")
    return put.values_list("pk", "text").first()


def text_in_force(kind: type[RuleVersion]) -> str:
    found = in_force(kind)
    return found[1] if found else ""


def rules_in_force() -> RuleSet:
    """The built-in rules, preceded by the operators' rules in force."""
    found = in_force(RuleBook)
    return builtin() if found is None else _compiled(*found)


class _LogRules:
    """The log rules in force as this process has read them, and until when it uses them."""

    until = 0.0
    rules = LogRules(())


def log_rules_in_force() -> LogRules:
    """The log rules that are in force, or were a few seconds ago."""
    now = time.monotonic()
    if now >= _LogRules.until:
        found = in_force(LogRuleBook)
        _LogRules.rules = LogRules(()) if found is None else _compiled_log_rules(*found)
        _LogRules.until = now + LOG_RULES_KEPT_S
    return _LogRules.rules


def forget_log_rules() -> None:
    """Read anew which log rules are in force; the other processes do within seconds."""
    _LogRules.until = 0.0


def log_matches_of(job: Job) -> list[LogMatch]:
    found = LogMatch.objects.filter(job=job).select_related("allocation__attempt", "allocation__node")
    return list(found.order_by("pk"))


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


@lru_cache(maxsize=4)
def _compiled_log_rules(pk: int, text: str) -> LogRules:
    try:
        return read_log_rules(text)
    except RuleError:
        # As above. Logs are still stored.
        log.exception("log_rules_refused version=%s", pk)
        return LogRules(())
