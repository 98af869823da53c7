"""What becomes of a job when an attempt has ended: a pure decision."""

from __future__ import annotations

from dataclasses import dataclass

from muster.jobs.spec import Retry, RetryOn
from scheduler.lifecycle import AttemptState, Desired, JobState, Reason

BACK_OFF_S, LONGEST_BACK_OFF_S = 5.0, 300.0

_CATEGORIES = {
    Reason.NOT_CLAIMED: RetryOn.INFRASTRUCTURE,
    Reason.NEVER_STARTED: RetryOn.INFRASTRUCTURE,
    Reason.LAUNCH_FAILED: RetryOn.INFRASTRUCTURE,
    Reason.CODE_UNAVAILABLE: RetryOn.INFRASTRUCTURE,
    Reason.IMAGE_UNREACHABLE: RetryOn.INFRASTRUCTURE,
    Reason.IMAGE_NO_SPACE: RetryOn.INFRASTRUCTURE,
    Reason.SPEC_REFUSED: RetryOn.INFRASTRUCTURE,
    Reason.AGENT_STOPPED: RetryOn.INFRASTRUCTURE,
    Reason.UNKNOWN: RetryOn.INFRASTRUCTURE,
    Reason.NODE_LOST: RetryOn.NODE_LOST,
    Reason.NODE_REBOOTED: RetryOn.NODE_LOST,
    Reason.PREEMPTED: RetryOn.PREEMPTED,
    Reason.EXIT_NONZERO: RetryOn.FAILED,
    Reason.KILLED_BY_SIGNAL: RetryOn.FAILED,
    Reason.OUT_OF_MEMORY: RetryOn.FAILED,
}

# The node is not to blame for these, and the next try need not wait.
_FREE_OF_CHARGE = frozenset({Reason.PREEMPTED, Reason.REQUEUED_BY_USER})


@dataclass(frozen=True, slots=True)
class Outcome:
    """The job's next state, and for one that is queued again: after how long, and whether it used up a retry."""

    state: JobState
    back_off_s: float = 0
    uses_retry: bool = False
    avoid_nodes: bool = False


def category_of(reason: Reason) -> RetryOn | None:
    """Under which of a spec's `retry.on` words an end falls; None for one that no retry can mend."""
    return _CATEGORIES.get(reason)


def derive_job_state(
    *,
    ended_as: AttemptState,
    reason: Reason,
    desired: Desired,
    retry: Retry,
    retries_used: int,
    by_node: bool = False,
) -> Outcome:
    """The job's next state after its attempt ended.

    1. Success is success, even if a cancellation was on its way.
    2. What the owner wants stopped is cancelled.
    3. A preempted or requeued job goes back without charge, whatever its spec says of retries: nothing failed, and
       what the platform or the owner did is not the job's to pay for. Who wants no preemption says so in the spec.
    4. Anything else is queued again if its spec names the category and has tries left, after a growing pause. What
       a node has done that fails whatever comes to it (`by_node`) is infrastructure's.
    """
    if ended_as is AttemptState.SUCCEEDED:
        return Outcome(JobState.SUCCEEDED)
    if desired is Desired.STOP:
        return Outcome(JobState.CANCELLED)
    if reason in _FREE_OF_CHARGE:
        return Outcome(JobState.QUEUED)
    category = RetryOn.INFRASTRUCTURE if by_node else category_of(reason)
    if category is None or category not in retry.on:
        return Outcome(JobState.FAILED)
    if retries_used >= retry.max:
        return Outcome(JobState.FAILED)
    pause_s = min(BACK_OFF_S * 2**retries_used, LONGEST_BACK_OFF_S)
    return Outcome(
        JobState.QUEUED,
        back_off_s=0 if category is RetryOn.NODE_LOST else pause_s,
        uses_retry=True,
        avoid_nodes=category is not RetryOn.FAILED,
    )
