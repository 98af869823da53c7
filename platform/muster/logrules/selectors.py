"""Which rules are in force, and which of them have met a job."""

from __future__ import annotations

import logging
import time
from functools import lru_cache

from muster.failures.versions import in_force
from muster.jobs.models import Job
from muster.logrules.models import LogMatch, LogRuleBook
from scheduler.diagnosis.failures.rules import RuleError
from scheduler.diagnosis.logrules import LogRules, read_log_rules

log = logging.getLogger(__name__)

LOOK_EVERY_S = 5.0
"""So long a process goes on with the rules that it knows: a chunk of a log must not cost a query for them."""


class _InForce:
    """The rules in force as this process knows them, and until when."""

    until = 0.0
    rules = LogRules(())


def rules_in_force() -> LogRules:
    """The rules that count now, or did a few seconds ago."""
    now = time.monotonic()
    if now >= _InForce.until:
        found = in_force(LogRuleBook)
        _InForce.rules = LogRules(()) if found is None else _compiled(*found)
        _InForce.until = now + LOOK_EVERY_S
    return _InForce.rules


def forget_rules() -> None:
    """Look at once which rules are in force; the other processes do within seconds."""
    _InForce.until = 0.0


def matches_of(job: Job) -> list[LogMatch]:
    """What lines of the job were met, in their order."""
    found = LogMatch.objects.filter(job=job).select_related("allocation__attempt", "allocation__node")
    return list(found.order_by("pk"))


@lru_cache(maxsize=4)
def _compiled(pk: int, text: str) -> LogRules:
    try:
        return read_log_rules(text)
    except RuleError:
        # The rules were valid when they were stored, so a newer version of the platform refuses them. Logs are still
        # stored.
        log.exception("log_rules_refused version=%s", pk)
        return LogRules(())
