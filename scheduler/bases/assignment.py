"""Gives many jobs their configurations at once: what is unchanged keeps its GPUs, the rest moves, starts or stops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduler.engine.configs import PolicyError, config_of, demands_for
from scheduler.engine.context import CycleContext, backoff_reason
from scheduler.model import Job, Locality, Running
from scheduler.model.lifecycle import AttemptState
from scheduler.model.plan import Denial
from scheduler.model.request import Config
from scheduler.placement.colocate import colocate


def assign(
    context: CycleContext,
    chosen: Mapping[int, Config | None],
    *,
    atomic: bool,
    beside: Mapping[int, int] | None = None,
) -> frozenset[int]:
    """Give each job its configuration, or none; returns the ids of the jobs that could not get theirs.

    1. Release the running jobs whose configuration changes.
    2. Place the jobs, the one with the most GPUs first.
    3. A running job that found no place keeps its GPUs if they are still free; else it stops.

    A job in `beside` shares the GPUs of the job that it names, and of no other; all other jobs share theirs with none.

    With `atomic`, all jobs get their configurations or nothing changes. The limit of placements of a cycle does not
    apply, so that it cuts no assignment in half.

    Raises:
        PolicyError: a job is unknown, is placed already, or may not stop; or it does not accept its configuration.
    """
    with context.attempt() as attempt:
        missed = _assign(context, chosen, beside or {})
        if not (atomic and missed):
            attempt.keep()
    return frozenset(missed)


def _assign(context: CycleContext, chosen: Mapping[int, Config | None], beside: Mapping[int, int]) -> set[int]:
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
            unchanged = config is not None and _is_unchanged(context, run, config)
            if unchanged and all(_may_stay(job_id, other, chosen, beside) for other in _neighbours(context, run)):
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
    for asked, config in sorted(wanted, key=lambda pair: (pair[0].id in beside, -pair[1].gpus)):
        host = beside.get(asked.id)
        if not (_place(context, asked, config) if host is None else _join(context, asked, config, host, released)):
            missed.add(asked.id)
    for run in reversed(released):
        _settle(context, run, chosen[run.job.id])
    return missed


def _is_unchanged(context: CycleContext, run: Running, config: Config) -> bool:
    held = config_of(context, run)
    if not context.stays(run) or held != Config(config.gpu_type, config.gpus, batch=config.batch):
        return False
    if config.nodes is not None and config.nodes != len(run.allocations):
        return False
    if config.locality is None or config.locality is Locality.ANY:
        return True
    nodes = {share.node_id for share in run.allocations}
    racks = {context.view.node_by_id[node_id].rack for node_id in nodes if node_id in context.view.node_by_id}
    near = {Locality.NODE: len(nodes) == 1, Locality.RACK: len(racks) == 1}
    return near[config.locality]


def _neighbours(context: CycleContext, run: Running) -> set[int]:
    """The other jobs on the GPUs of a run."""
    gpu_ids = [gpu_id for share in run.allocations for gpu_id in share.gpu_ids]
    return {job_id for gpu_id in gpu_ids for job_id in context.view.holders_of_gpu.get(gpu_id, ())} - {run.job.id}


def _may_stay(job_id: int, other: int, chosen: Mapping[int, Config | None], beside: Mapping[int, int]) -> bool:
    """True if a job that keeps its configuration may stay where it shares its GPUs with another job.

    A guest stays beside its host only, another job beside those that become its guests or go. Of two jobs that are to
    share GPUs no longer, the one with the smaller id stays.
    """
    if job_id in beside or other not in chosen:
        return beside.get(job_id) == other
    here, there = chosen[job_id], chosen[other]
    return there is None or here is None or here.gpu_type != there.gpu_type or other in beside or job_id < other


def _join(context: CycleContext, job: Job, config: Config, host: int, released: Sequence[Running]) -> bool:
    """Place the job on the GPUs of its host, which has been placed or stays."""
    context.bind_deferred_lots()
    run, place = context.view.running_by_job.get(host), context.places.get(host)
    if place is not None:
        asked = run.job if run is not None else context.view.waiting_by_id[host]
        run = Running(-host, asked, AttemptState.PLACED, place.allocations, context.now)
    if run is None or isinstance(context.ledger.offer(job, Config(config.gpu_type, 0)), Denial):
        return False
    leaving, demand = [one.job.id for one in released], demands_for(context, job, config)[0]
    found = colocate(context.view, context.state.free, job, demand, run, leaving=leaving)
    if found is not None:
        context.take(job, found, demand.batch)
    return found is not None


def _place(context: CycleContext, job: Job, config: Config) -> bool:
    demands = demands_for(context, job, config)
    if job.id in context.reserved or (job.id in context.view.waiting_by_id and backoff_reason(job, context.now)):
        return False
    possible = [demand for demand in demands if context.state.capacity.infeasible(demand) is None]
    admitted = [demand for demand in possible if context.quota_denial(job, demand) is None]
    return context.place(job, admitted, limited=False)


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
