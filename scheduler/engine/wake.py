"""The time at which a pool must be decided on again without an event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scheduler.engine.context import MAX_WAKE_S
from scheduler.engine.policy import PeriodicPolicy, Policy
from scheduler.model import Job, Running, Snapshot
from scheduler.model.plan import Plan, apply
from scheduler.placement import Placement


def job_wake(policy: Policy, placement: Placement, job: Job, run: Running | None, now: float) -> float | None:
    """The next moment at which the decision about a job may change by itself: for its policy, or by its locality."""
    moment = policy.next_change(job, run, now)
    relaxed = placement.relaxes_at(job, now) if run is None else None
    return relaxed if moment is None else moment if relaxed is None else min(moment, relaxed)


def next_wake(snapshot: Snapshot, plan: Plan, policy: Policy, placement: Placement) -> float | None:
    """The earliest moment, within a year, at which the pool must be decided on again; None: only after an event.

    It is the earliest of the policy's own moment, those of its jobs, the ends of back-offs, the next look of a policy
    that follows measurements of running jobs, and the times at which running jobs may be resized again.
    """
    after, now = apply(snapshot, plan), snapshot.now
    moments = [plan.wake_at, *_by_jobs(after.waiting, after.running, policy, placement, now)]
    if after.running and isinstance(policy, PeriodicPolicy) and policy.period_s is not None:
        moments.append(now + policy.period_s)
    # A parameter may be as large as it likes: what is more than a year away is left to the sweeps.
    return min((one for one in moments if one is not None and now < one <= now + MAX_WAKE_S), default=None)


def _by_jobs(
    waiting: Iterable[Job], running: Iterable[Running], policy: Policy, placement: Placement, now: float
) -> Iterator[float | None]:
    for job in waiting:
        yield job_wake(policy, placement, job, None, now)
        yield job.eligible_at
    for run in running:
        if not (run.stopping or run.foreign):
            yield job_wake(policy, placement, run.job, run, now)
            yield run.job.fixed_until
