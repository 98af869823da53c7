"""Gives many jobs their configurations at once: what is unchanged keeps its GPUs, the rest moves, starts or stops."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.engine.configs import PolicyError, config_of, demand_for
from scheduler.engine.context import CycleContext, backoff_reason
from scheduler.model import Job, Locality, Running
from scheduler.model.request import Config


def assign(context: CycleContext, chosen: Mapping[int, Config | None], *, atomic: bool) -> frozenset[int]:
    """Give each job its configuration, or none; returns the ids of the jobs that could not get theirs.

    1. Release the running jobs whose configuration changes.
    2. Place the jobs, the one with the most GPUs first.
    3. A running job that found no place keeps its GPUs if they are still free; else it stops.

    With `atomic`, all jobs get their configurations or nothing changes. The limit of placements of a cycle does not
    apply, so that it cuts no assignment in half.

    Raises:
        PolicyError: a job is unknown, is placed already, or may not stop; or it does not accept its configuration.
    """
    with context.attempt() as attempt:
        missed = _assign(context, chosen)
        if not (atomic and missed):
            attempt.keep()
    return frozenset(missed)


def _assign(context: CycleContext, chosen: Mapping[int, Config | None]) -> set[int]:
    view, missed = context.view, set[int]()
    wanted: list[tuple[Job, Config]] = []
    released: list[Running] = []
    for job_id, config in chosen.items():
        run, job = view.running_by_job.get(job_id), view.waiting_by_id.get(job_id)
        if job_id in context.places:
            raise PolicyError(f"job {job_id} is placed already in this cycle")
        if run is None and job is None:
            raise PolicyError(f"there is no job {job_id} in this pool")
        if run is not None:
            if config is not None and _is_unchanged(context, run, config):
                continue
            if not context.stays(run):
                missed |= {job_id} if config is not None else set()
                continue
            if not run.job.preemptible:
                raise PolicyError(f"job {job_id} may not be preempted, and runs on {config_of(context, run)}")
            context.release(run)
            released.append(run)
        asked = run.job if run is not None else job
        if config is not None and asked is not None:
            wanted.append((asked, config))
    for asked, config in sorted(wanted, key=lambda pair: -pair[1].gpus):
        if not _place(context, asked, config):
            missed.add(asked.id)
    for run in reversed(released):
        _settle(context, run, chosen[run.job.id])
    return missed


def _is_unchanged(context: CycleContext, run: Running, config: Config) -> bool:
    held = config_of(context, run)
    if not context.stays(run) or (held.gpu_type, held.gpus) != (config.gpu_type, config.gpus):
        return False
    nodes = {share.node_id for share in run.allocations}
    racks = {context.view.node_by_id[node_id].rack for node_id in nodes if node_id in context.view.node_by_id}
    near = {Locality.NODE: len(nodes) == 1, Locality.RACK: len(racks) == 1}
    return config.locality is None or near.get(config.locality, True)


def _place(context: CycleContext, job: Job, config: Config) -> bool:
    demand = demand_for(context, job, config)
    if job.id in context.reserved or (job.id in context.view.waiting_by_id and backoff_reason(job, context.now)):
        return False
    if context.state.capacity.infeasible(demand) is not None or context.quota_denial(job, demand) is not None:
        return False
    return context.place(job, (demand,), limited=False)


def _settle(context: CycleContext, run: Running, config: Config | None) -> None:
    """Decide about a released job: it moves, keeps its GPUs after all, or stops."""
    held = config_of(context, run)
    if run.job.id in context.places:
        how = "is placed anew" if config == held else f"changes from {held} to {config}"
        context.preempt(run, run.job.id, f"its configuration {how}")
    elif config is not None and context.can_stay(run):
        context.undo_release(run)
    else:
        context.preempt(run, None, "its lease has ended" if config is None else "its GPUs go to other jobs")
