"""When a pool must be decided on again although nothing happens until then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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
    """The earliest moment, later than now, at which the pool must be decided on again; None: only after an event.

    That is the wish of the policy, the moment of one of its jobs, the end of a back-off, or the next look of a policy
    that follows measurements of running jobs.
    """
    after, now = apply(snapshot, plan), snapshot.now
    moments = [plan.wake_at, *_by_jobs(after.waiting, after.running, policy, placement, now)]
    if after.running and isinstance(policy, PeriodicPolicy) and policy.period_s is not None:
        moments.append(now + policy.period_s)
    return min((moment for moment in moments if moment is not None and moment > now), default=None)


def _by_jobs(
    waiting: Iterable[Job], running: Iterable[Running], policy: Policy, placement: Placement, now: float
) -> Iterator[float | None]:
    for job in waiting:
        yield job_wake(policy, placement, job, None, now)
        yield job.eligible_at
    for run in running:
        if not (run.stopping or run.foreign):
            yield job_wake(policy, placement, run.job, run, now)
