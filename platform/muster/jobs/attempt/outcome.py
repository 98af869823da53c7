"""The consequences of the end of an attempt for its job: a pure judgement."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from muster.jobs.attempt.resizes import FailedResize
from muster.jobs.spec.spec import Retry
from scheduler.diagnosis.failures import Retry as Advice
from scheduler.diagnosis.failures import Verdict, title_of
from scheduler.diagnosis.screening import Judgement, ScreeningVerdict, Then, judge
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


@dataclass(frozen=True, slots=True, kw_only=True)
class EndFacts:
    """Facts of an attempt that has ended, and of its job."""

    ended_as: AttemptState
    reason: Reason
    desired: Desired
    retry: Retry
    retries_used: int
    verdict: Verdict | None = None
    by_node: bool = False
    """One of its nodes fails whatever comes to it, or may do so for all that is known."""
    failed_so_before: int = 0
    """Earlier attempts of the same failure class, or for the same reason where there is no log."""
    resize: FailedResize | None = None
    """The resize that fails with this end."""
    screening_runs: int = 0
    """Of the job, this one included; 0: this was a full run."""
    chance: float = 0.5
    """From 0 to 1; it spreads the pauses."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The job's next state, and for one that is queued again: after how long, and whether it used up a retry.

    `because` says which rule granted the retry, in words that follow "because". `reason` is stored with the job.
    """

    state: JobState
    back_off_s: float = 0
    uses_retry: bool = False
    avoid_nodes: bool = False
    because: str = ""
    reason: Reason = Reason.UNKNOWN
    strikes_nodes: bool = False
    """Its log speaks against its nodes."""
    screening: Judgement | None = None
    """The judgement on a screening run."""


def judge_end(facts: EndFacts) -> Outcome:
    """The consequences of the end of an attempt. Reads nothing and writes nothing."""
    outcome = _after_screening(facts) if facts.screening_runs else _after_full_run(facts)
    if outcome.state is JobState.CANCELLED:
        early = facts.reason is Reason.STOPPED_EARLY
        return replace(outcome, reason=facts.reason if early else Reason.CANCELLED_BY_USER)
    strikes = facts.verdict is not None and _is_told_of_node(facts.verdict, facts.reason)
    return replace(outcome, reason=facts.reason, strikes_nodes=strikes)


def _after_screening(facts: EndFacts) -> Outcome:
    found = judge(
        ended_as=facts.ended_as,
        reason=facts.reason,
        failure=facts.verdict,
        tries=facts.screening_runs,
        by_node=facts.by_node,
    )
    if facts.desired is Desired.STOP:
        found = Judgement(ScreeningVerdict.INTERRUPTED, Then.FAIL, "it was cancelled")
        outcome = Outcome(JobState.CANCELLED)
    elif found.then is Then.GO_ON:
        outcome = Outcome(JobState.QUEUED)
    elif found.then is Then.AGAIN:
        meaning = facts.reason.meaning
        at_once = meaning.retry is Retried.FREE or meaning.is_departure
        outcome = Outcome(JobState.QUEUED, back_off_s=0.0 if at_once else BACK_OFF_S, avoid_nodes=not at_once)
    else:
        # Its owner may want even such failures tried again.
        outcome = _by_its_spec(facts)
    return replace(outcome, screening=found)


def _after_full_run(facts: EndFacts) -> Outcome:
    outcome = _by_its_spec(facts)
    return outcome if facts.resize is None else Outcome(JobState.QUEUED, avoid_nodes=outcome.avoid_nodes)


def _by_its_spec(facts: EndFacts) -> Outcome:
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
       must be another place it is looked for, until it has failed so on several (`failed_so_before`). What no retry
       can help is not tried again.
    """
    reason, retry = facts.reason, facts.retry
    if facts.ended_as is AttemptState.SUCCEEDED:
        return Outcome(JobState.SUCCEEDED)
    if facts.desired is Desired.STOP:
        return Outcome(JobState.CANCELLED)
    meaning = reason.meaning
    if meaning.retry is Retried.NEVER:
        return Outcome(JobState.FAILED)
    if meaning.retry is Retried.FREE:
        return Outcome(JobState.QUEUED)
    if reason is Reason.GPU_CHECK_FAILED and facts.failed_so_before < FREE_CHECKS:
        return Outcome(JobState.QUEUED, avoid_nodes=True)
    told = facts.verdict if meaning.log is Log.DECIDES else None
    category = RetryOn.INFRASTRUCTURE if facts.by_node else _category(reason, told)
    if RetryOn.ANYTHING not in retry.on and (category is None or category not in retry.on):
        return Outcome(JobState.FAILED)
    if facts.retries_used >= retry.max:
        return Outcome(JobState.FAILED)
    elsewhere = told is not None and told.retry is Advice.ELSEWHERE
    if elsewhere and facts.failed_so_before + 1 >= TRIES_ELSEWHERE and RetryOn.ANYTHING not in retry.on:
        return Outcome(JobState.FAILED)
    pause_s = min(BACK_OFF_S * 2**facts.retries_used, MAX_BACK_OFF_S) * (1 + JITTER * (2 * facts.chance - 1))
    in_place = told is not None and told.retry is Advice.YES and not facts.by_node
    return Outcome(
        JobState.QUEUED,
        back_off_s=pause_s if meaning.pauses else 0,
        uses_retry=True,
        avoid_nodes=category not in {None, RetryOn.FAILED} and not in_place,
        because=_because(retry, category, told, by_node=facts.by_node),
    )


def _because(retry: Retry, category: RetryOn | None, told: Verdict | None, *, by_node: bool) -> str:
    """The rule that grants another try."""
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


def _is_told_of_node(verdict: Verdict, reason: Reason) -> bool:
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
