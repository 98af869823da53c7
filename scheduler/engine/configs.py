"""Configurations: the GPU type, the number of GPUs, the locality and the batch size in which a job may run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from scheduler.engine.context import CycleContext
from scheduler.engine.demands import feasible_sizes
from scheduler.model import Job, Locality, Rate, Running
from scheduler.model.given import batch_of
from scheduler.model.request import Choice, Config, words_for_choices
from scheduler.placement.demand import Demand


class PolicyError(ValueError):
    """A policy asks for something that the pool, a job or the page does not allow; the message names it."""


def configs_of(context: CycleContext, job: Job) -> Sequence[Config]:
    """The configurations that the job accepts and the empty pool could give it, in the job's order of preference.

    An elastic job's requested size comes first, then the other sizes of its range, ascending.
    """
    capacity, placement, request = context.state.capacity, context.placement, job.request
    within = request.locality if placement.relaxes else placement.within(job, context.now)
    found = context.state.configs.get((request, within))
    if found is None:
        found = context.state.configs[request, within] = [
            Config(choice.gpu_type, gpus)
            for choice in request.choices_among(capacity.types)
            for gpus in feasible_sizes(capacity, request, choice, within)
        ]
    return found


def preferred(configs: Iterable[Config]) -> Mapping[str, Config]:
    """The preferred configuration of each GPU type; the type of one without GPUs is empty."""
    found: dict[str, Config] = {}
    for config in configs:
        found.setdefault(config.gpu_type or "", config)
    return found


def sizes_on(context: CycleContext, job: Job, gpu_type: str) -> Sequence[int]:
    """The sizes in which the empty pool could give the job GPUs of one type, in GPUs of the whole gang, ascending."""
    return sorted(config.gpus for config in configs_of(context, job) if config.gpu_type == gpu_type)


def demands_for(context: CycleContext, job: Job, config: Config) -> Sequence[Demand]:
    """The demands of the job in a configuration, by preference; never empty.

    Raises:
        PolicyError: the job does not accept the configuration.
    """
    request, choice = job.request, job.request.choice_of(config.gpu_type)
    if choice is not None and request.has_size(choice, config.gpus):
        if config.batch is not None and config.batch < 1:
            raise PolicyError(f"job {job.id}: the batch size {config.batch} is less than 1")
        demands = _demands(context, job, choice, config)
        if demands:
            return demands if config.batch is None else [replace(demand, batch=config.batch) for demand in demands]
    sizes = f", or {request.min_gpus} to {request.max_gpus} GPUs in all" if request.elastic is not None else ""
    accepted = f"{words_for_choices(request.choices)} on {request.nodes} nodes{sizes}"
    raise PolicyError(f"job {job.id} accepts {accepted}, not {config}")


def is_feasible(context: CycleContext, demands: Iterable[Demand]) -> bool:
    """True if the empty pool could meet one of the demands."""
    return any(context.state.capacity.infeasible(demand) is None for demand in demands)


def config_of(context: CycleContext, run: Running) -> Config:
    """The configuration in which a job runs."""
    first = next((share.gpu_ids[0] for share in run.allocations if share.gpu_ids), None)
    gpu = None if first is None else context.view.gpu_by_id.get(first)
    return _config(gpu.type if gpu is not None else None, run.gpus, batch_of(run.given))


@lru_cache(maxsize=1024)
def _config(gpu_type: str | None, gpus: int, batch: int | None) -> Config:
    return Config(gpu_type, gpus, batch=batch)


def rate_of(context: CycleContext, job: Job, config: Config, beside: Job | None = None) -> Rate | None:
    """The job's rate in the configuration, alone or sharing its GPUs with another job; None: unknown.

    In another batch size than its own, it is known only while the job runs in it.

    A pair is measured only while both jobs share their GPUs. Otherwise its rate is estimated from the rate alone: by
    what the view tells of the two, or by time slices in proportion to their utilisation, as far as that is known.
    """
    if beside is None and config.batch is None:
        for known in job.rates:
            if (known.gpu_type, known.gpus) == (config.gpu_type, config.gpus):
                return known.rate
    run = context.view.running_by_job.get(job.id)
    here = run is not None and config_of(context, run) == Config(config.gpu_type, config.gpus, batch=config.batch)
    if beside is not None:
        held = [gpu_id for share in run.allocations for gpu_id in share.gpu_ids] if run is not None and here else []
        together = held and all(beside.id in context.view.holders_of_gpu.get(gpu_id, ()) for gpu_id in held)
        if together and run is not None and run.speed is not None:
            return Rate(run.speed, None, "measured")
        alone_rate, share = rate_of(context, job, config), _share_beside(context, job, beside, config.gpu_type)
        if alone_rate is None or share is None:
            return None
        return Rate(alone_rate.mean * share, alone_rate.deviation, "estimated")
    alone = run is not None and run.rate is None
    return Rate(run.speed, None, "measured") if run is not None and here and alone and run.speed is not None else None


def _share_beside(context: CycleContext, job: Job, other: Job, gpu_type: str | None) -> float | None:
    """The speed of the job beside the other, relative to alone; None: unknown."""
    told = context.view.speed_beside(job.id, other.id, gpu_type or "")
    if told is not None or job.utilization is None or other.utilization is None:
        return told
    wanted = job.utilization + other.utilization
    return 1.0 if wanted <= 1 else 1.0 / wanted


def _demands(context: CycleContext, job: Job, choice: Choice, config: Config) -> Sequence[Demand]:
    if config.gpu_type is None:
        return context.demands(job)
    demands = context.demands_on(job, config.gpu_type, config.gpus)
    if config.nodes is not None:
        demands = [demand for demand in demands if demand.nodes == config.nodes]
    if config.locality is None or choice.gpus == 0:
        return demands
    levels = list(Locality)
    if levels.index(config.locality) > levels.index(job.request.locality):
        raise PolicyError(f"job {job.id} has locality {job.request.locality}, and {config.locality} is further apart")
    return [demand.relaxed(config.locality) for demand in demands]
