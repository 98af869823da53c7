"""The view and the jurisdiction of one of several planners of a pool.

Each virtual cluster has one planner. All planners see the whole pool, with every running job and reservation; the
waiting jobs of a planner are those of its own virtual clusters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from scheduler.model.plan import Plan
from scheduler.model.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Scope:
    """The virtual clusters of a planner: these, or all others if `rest`."""

    vc_ids: frozenset[int]
    rest: bool = False

    def has(self, vc_id: int) -> bool:
        """True if the planner decides on the jobs of the virtual cluster."""
        return (vc_id in self.vc_ids) is not self.rest


def seen_by(snapshot: Snapshot, scope: Scope) -> Snapshot:
    """The snapshot as a planner sees it: other planners' waiting jobs are left out, their running jobs are foreign.

    A foreign job shows no policy state, because another policy wrote it.
    """
    waiting = tuple(job for job in snapshot.waiting if scope.has(job.vc_id))
    own = {job.id for job in waiting}
    running = []
    for run in snapshot.running:
        if scope.has(run.vc_id):
            own.add(run.job_id)
            running.append(run)
            continue
        job = replace(run.job, policy_state={}, preemptible=False)
        running.append(replace(run, job=job, foreign=True, reclaimable=run.job.preemptible))
    reservations = tuple(
        one if one.offered or one.job_id in own else replace(one, foreign=True) for one in snapshot.reservations
    )
    return replace(snapshot, waiting=waiting, running=tuple(running), reservations=reservations)


def own_part(snapshot: Snapshot, plan: Plan) -> Plan:
    """The plan without notes on foreign jobs."""
    foreign = {run.job_id for run in snapshot.running if run.foreign}
    if not foreign:
        return plan
    return replace(plan, notes=tuple(note for note in plan.notes if note.job_id not in foreign))
