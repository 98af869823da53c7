"""Outcomes of attempts, by which GPU-hours are reported."""

from __future__ import annotations

from enum import StrEnum

from scheduler.diagnosis.failures.rules import NO_SIGNATURE
from scheduler.model.lifecycle import ATTEMPT_LIVE, AttemptState, Stage
from scheduler.model.reasons import Reason


class Outcome(StrEnum):
    """The outcome of an attempt's GPU-hours."""

    RUNNING = "running"
    """Not known yet: it still holds its GPUs."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REQUEUED = "requeued"
    """Its owner sent it back to the queue."""
    PREEMPTED = "preempted"
    """Stopped for others; the job goes on from its checkpoint."""
    WORK_LOST = "work_lost"
    """Stopped for others, and the job begins anew."""
    NODE_LOST = "node_lost"
    SCREENING = "screening"
    """A screening run, whatever its verdict."""


WASTED = frozenset({Outcome.FAILED, Outcome.WORK_LOST, Outcome.NODE_LOST})
"""Outcomes whose work is lost. Cancelled work is reported beside it: its owner may have seen enough."""


def outcome_sql() -> str:
    """The outcome of an `attempt` of a `job`, as an expression of SQL."""
    live = ", ".join(f"'{state.value}'" for state in sorted(ATTEMPT_LIVE))
    return (
        f"CASE WHEN attempt.stage = '{Stage.SCREENING.value}' THEN '{Outcome.SCREENING.value}'"
        f" WHEN attempt.state IN ({live}) THEN '{Outcome.RUNNING.value}'"
        f" WHEN attempt.state = '{AttemptState.LOST.value}' THEN '{Outcome.NODE_LOST.value}'"
        f" WHEN attempt.state <> '{AttemptState.PREEMPTED.value}' THEN attempt.state"
        f" WHEN attempt.reason = '{Reason.REQUEUED_BY_USER.value}' THEN '{Outcome.REQUEUED.value}'"
        f" WHEN job.checkpoints THEN '{Outcome.PREEMPTED.value}' ELSE '{Outcome.WORK_LOST.value}' END"
    )


def failure_sql() -> str:
    """The class of an attempt's failure, else the platform's reason; null for one that did not fail."""
    return (
        f"CASE WHEN {_FAILED} THEN CASE WHEN {_IS_KNOWN} THEN attempt.failure->>'class'"
        f" ELSE COALESCE(NULLIF(attempt.reason, ''), '{Reason.UNKNOWN.value}') END END"
    )


def category_sql() -> str:
    """The category of an attempt's failure; null for one that did not fail."""
    by_reason = " ".join(f"WHEN '{reason.value}' THEN '{reason.meaning.blames}'" for reason in Reason)
    return (
        f"CASE WHEN {_FAILED} THEN CASE WHEN {_IS_KNOWN} THEN attempt.failure->>'category'"
        f" ELSE CASE attempt.reason {by_reason} ELSE '{Reason.UNKNOWN.meaning.blames}' END END END"
    )


def retry_sql() -> str:
    """Whether an attempt is another try after one that failed; a screening run is none."""
    return (
        f"(attempt.number > 1 AND attempt.stage = '{Stage.FULL.value}' AND EXISTS (SELECT 1 FROM jobs_attempt earlier"
        " WHERE earlier.job_id = attempt.job_id AND earlier.number = attempt.number - 1"
        f" AND earlier.stage = '{Stage.FULL.value}' AND {_FAILED.replace('attempt.', 'earlier.')}))"
    )


_FAILED = f"attempt.state IN ('{AttemptState.FAILED.value}', '{AttemptState.LOST.value}')"
_IS_KNOWN = f"COALESCE(attempt.failure->>'class', '{NO_SIGNATURE}') <> '{NO_SIGNATURE}'"
