"""Sweeps and their members as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from muster.api.fairness.render import sweep_rho
from muster.common.clock import hours, moment
from muster.jobs.models import JobGroup
from muster.jobs.spec.spec_order import in_order
from muster.sweeps.models import Progress, Trial
from muster.sweeps.selectors import Standing, rungs_reached, spec_of, standings
from muster.usage.finish_times import fairness_of_group
from muster_client.answers.sweeps import BestMember, MemberCounts, Sweep, SweepInList


def sweep_list(groups: Iterable[JobGroup]) -> list[SweepInList]:
    """The sweeps as lists show them; three more queries for all of them."""
    groups = list(groups)
    found = standings(groups)
    return [_sweep(group, found[group.pk]) for group in groups]


def sweep_document(group: JobGroup) -> Sweep:
    """The sweep with its spec and its progress."""
    (document,) = sweep_list([group])
    progress = Progress.objects.filter(group=group).first()
    return {
        **document,
        "spec": in_order(group.spec),
        "best_so_far": progress.best_so_far if progress else [],
        "rungs": [
            {"steps": count.steps, "reached": count.arrived, "kept": count.kept}
            for count in rungs_reached(group, spec_of(group))
        ],
        "rho": sweep_rho(fairness_of_group(group)),
    }


def _sweep(group: JobGroup, standing: Standing) -> SweepInList:
    sweep = spec_of(group)
    return {
        "id": group.pk,
        "name": group.name,
        "tenant": group.tenant.name,
        "vc": group.vc.name,
        "pool": group.pool.name,
        "owner": group.owner.username,
        "state": group.state,
        "reason": group.reason,
        "method": sweep.method,
        "metric": sweep.metric,
        "goal": sweep.goal,
        "params": list(sweep.params),
        "parallel": group.parallel,
        "members": _counts(group, standing.members),
        "best": _best(standing.best),
        "gpu_hours": hours(standing.gpu_s),
        "saved_gpu_hours": hours(standing.saved_gpu_s),
        "submitted_at": moment(group.submitted_at),
        "ended_at": moment(group.ended_at),
        "cloned_from": group.cloned_from_id,
    }


def _counts(group: JobGroup, by_state: Mapping[str, int]) -> MemberCounts:
    return {
        "total": group.size,
        "waiting": by_state["waiting"],
        "running": by_state["running"],
        "paused": by_state["paused"],
        "succeeded": by_state["succeeded"],
        "failed": by_state["failed"],
        "stopped": by_state["stopped"],
        "cancelled": by_state["cancelled"],
    }


def _best(trial: Trial | None) -> BestMember | None:
    if trial is None or trial.value is None or trial.job.member is None:
        return None
    return {
        "job": trial.job.pk,
        "member": trial.job.member,
        "params": trial.job.params,
        "value": trial.value,
        "step": trial.value_step,
    }
