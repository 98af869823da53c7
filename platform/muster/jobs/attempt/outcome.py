"""What becomes of a job when an attempt has ended: a pure decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from muster.jobs.spec.spec import Retry
from scheduler.diagnosis.failures import Retry as Advice
from scheduler.diagnosis.failures import Verdict, title_of
from scheduler.model.lifecycle import AttemptState, Desired, JobState
from scheduler.model.reasons import Log, Reason, Retried, RetryOn

BACK_OFF_S, MAX_BACK_OFF_S = 5.0, 300.0
JITTER = 0.25
"""Pauses differ by up to this part, so that jobs that failed together do not come back together."""
SURE = 0.8
"""From this confidence on, a verdict that no retry helps is acted upon."""
TRIES_ELSEWHERE = 3
"""A job that fails in the same way on this many placements is the likelier cause itself."""

FREE_CHECKS = 8
"""So often a job is sent elsewhere for nothing because a GPU was not fit: then something else may be wrong."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The job's next state, and for one that is queued again: after how long, and whether it used up a retry.

    `because` says which rule granted the retry, in words that follow "because".
    """

    state: JobState
    back_off_s: float = 0
    uses_retry: bool = False
    avoid_nodes: bool = False
    because: str = ""


def derive_job_state(
    *,
    ended_as: AttemptState,
    reason: Reason,
    desired: Desired,
    retry: Retry,
    retries_used: int,
    by_node: bool = False,
    verdict: Verdict | None = None,
    failed_so_before: int = 0,
    chance: float = 0.5,
) -> Outcome:
    """The job's next state after its attempt ended.

    1. Success is success, even if a cancellation was on its way.
    2. What the owner wants stopped is cancelled.
    3. An end that is never retried fails the job whatever its spec says: it was stopped for good, or stood idle.
    4. A preempted or requeued job goes back without charge, whatever its spec says of retries: nothing failed, and
       what the platform or the owner did is not the job's to pay for. Who wants no preemption says so in the spec.
       So does one of which nothing was started because a GPU was not fit, but it goes elsewhere (`FREE_CHECKS`).
    5. Anything else is queued again if its spec names the category and has tries left, after a growing pause. What
       a node has done that fails whatever comes to it (`by_node`) is infrastructure's.
    6. A `verdict` on its log counts more than an exit status. What another try may heal is infrastructure's; where that
       must be another place it is looked for, until it has failed so on several (`failed_so_before`: attempts of the
       same class, or the same reason where there is no log). What no retry can help is not tried again.

    `chance`, from 0 to 1, spreads the pauses.
    """
    if ended_as is AttemptState.SUCCEEDED:
        return Outcome(JobState.SUCCEEDED)
    if desired is Desired.STOP:
        return Outcome(JobState.CANCELLED)
    meaning = reason.meaning
    if meaning.retry is Retried.NEVER:
        return Outcome(JobState.FAILED)
    if meaning.retry is Retried.FREE:
        return Outcome(JobState.QUEUED)
    if reason is Reason.GPU_CHECK_FAILED and failed_so_before < FREE_CHECKS:
        return Outcome(JobState.QUEUED, avoid_nodes=True)
    told = verdict if meaning.log is Log.DECIDES else None
    category = RetryOn.INFRASTRUCTURE if by_node else _category(reason, told)
    if RetryOn.ANYTHING not in retry.on and (category is None or category not in retry.on):
        return Outcome(JobState.FAILED)
    if retries_used >= retry.max:
        return Outcome(JobState.FAILED)
    elsewhere = told is not None and told.retry is Advice.ELSEWHERE
    if elsewhere and failed_so_before + 1 >= TRIES_ELSEWHERE and RetryOn.ANYTHING not in retry.on:
        return Outcome(JobState.FAILED)
    pause_s = min(BACK_OFF_S * 2**retries_used, MAX_BACK_OFF_S) * (1 + JITTER * (2 * chance - 1))
    in_place = told is not None and told.retry is Advice.YES and not by_node
    return Outcome(
        JobState.QUEUED,
        back_off_s=pause_s if meaning.pauses else 0,
        uses_retry=True,
        avoid_nodes=category not in {None, RetryOn.FAILED} and not in_place,
        because=_because(retry, category, told, by_node=by_node),
    )


def _because(retry: Retry, category: RetryOn | None, told: Verdict | None, *, by_node: bool) -> str:
    """Which rule grants another try."""
    if by_node:
        return "jobs failed in a row on its node"
    if category is None or category not in retry.on:
        return "its spec retries after any failure (retry.on: anything)"
    if told is not None and told.retry in {Advice.YES, Advice.ELSEWHERE}:
        return f"this failure may pass: {title_of(told.failure, line=told.line)}"
    return f"its spec retries after such a failure (retry.on: {category})"


def retry_fields(outcome: Outcome, *, retries_used: int, attempt: int) -> dict[str, Any]:
    """The fields of the job that a retry changes, after the attempt of this number; none if it uses no retry."""
    if not outcome.uses_retry:
        return {}
    because = f"Attempt {attempt} was tried again, because {outcome.because}."
    return {"retries_used": retries_used + 1, "retried_because": because[:300]}


def is_told_of_node(verdict: Verdict, reason: Reason) -> bool:
    """Whether the log of what failed for that reason speaks against the node, and not the platform's own eyes."""
    # A verdict without a line of the log came from what the agent reported of the GPU, which has its own consequences.
    by_log = verdict.line_number is not None
    return by_log and reason.meaning.log is Log.DECIDES and verdict.retry is Advice.ELSEWHERE


def _category(reason: Reason, verdict: Verdict | None) -> RetryOn | None:
    if verdict is None:
        return reason.meaning.category
    if verdict.retry in {Advice.YES, Advice.ELSEWHERE}:
        # Also where a library told it: a collective that timed out may have any cause between the ranks.
        return RetryOn.INFRASTRUCTURE
    if verdict.retry is Advice.NO and verdict.confidence >= SURE:
        return None
    return reason.meaning.category
