"""The scheduler's view of a trace's job when it arrives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

from scheduler.model import Job, KnownRate
from scheduler.model.request import Over
from scheduler.sim.options import Options, Oracle
from scheduler.sim.trace import TraceJob
from scheduler.sim.work import known_rates


def scheduled_job(
    traced: TraceJob,
    *,
    vc_id: int,
    owner_id: int,
    group_id: int | None,
    gpu_types: Sequence[str],
    expected_s: float | None,
    measured: bool,
    options: Options,
) -> Job:
    """The job as the scheduler sees it; `gpu_types` are those of the cluster.

    A type on which it cannot run is no choice for it. `measured` tells that the trace has a table of pairs that share
    GPUs: in it a pair that did not fit into GPU memory has no speed.
    """
    perfect, ranks = options.oracle is Oracle.PERFECT, 1 if traced.split else traced.nodes
    each = ranks if traced.over is Over.NODE else 1
    accepted = [traced.gpu_type] if traced.gpu_type is not None else traced.gpu_types or gpu_types
    rates = known_rates(traced.work, traced.gpus, accepted)
    if options.rate_noise:
        rates = tuple(_with_mean(known, known.rate.mean * _noise(traced.id, known, options)) for known in rates)
    able = tuple(known.gpu_type for known in rates if known.rate.mean > 0)
    fastest = max((known.rate.mean for known in rates), default=0.0)
    memory_mib = 0 if traced.gpu_memory_mib is None and measured else traced.gpu_memory_mib
    return Job.of(
        id=traced.id,
        tenant_id=vc_id,
        vc_id=vc_id,
        owner_id=owner_id,
        priority=traced.priority,
        job_class=traced.job_class,
        gpu_type=traced.gpu_type,
        gpu_types=able if len(able) < len(rates) else traced.gpu_types,
        gpus=traced.gpus // ranks,
        nodes=ranks,
        cpus=traced.cpus,
        memory_mib=traced.memory_mib,
        submitted_at=traced.submitted_s,
        eligible_at=0.0,
        time_limit_s=traced.time_limit_s,
        grace_s=options.grace_s,
        attained_gpu_s=0.0,
        avoid_nodes=(),
        preemptible=traced.preemptible,
        still_stopping=False,
        split=traced.split,
        min_gpus=max(1, traced.min_gpus // each),
        max_gpus=traced.max_gpus // each,
        over=traced.over,
        speeds=traced.work.speeds() if traced.max_gpus and perfect else (),
        checkpoints=traced.checkpoints,
        expected_s=expected_s,
        remaining_s=expected_s,
        utilization=traced.gpu_utilization,
        gpu_memory_mib=memory_mib,
        packs=options.share and memory_mib is not None,
        rates=rates,
        expected_rate=fastest if perfect and fastest > 0 else None,
        group_id=group_id,
        deadline_at=None if traced.deadline_s is None else traced.submitted_s + traced.deadline_s,
    )


def with_rates(job: Job, rates: Mapping[str, float], options: Options) -> Job:
    """The job with these rates by GPU type on the GPUs of its known rates; itself if they are the same."""
    told = tuple(
        _with_mean(known, rates.get(known.gpu_type, 0.0) * _noise(job.id, known, options)) for known in job.rates
    )
    if told == job.rates:
        return job
    fastest = max(known.rate.mean for known in told)
    return replace(job, rates=told, expected_rate=None if job.expected_rate is None else fastest)


def _with_mean(known: KnownRate, mean: float) -> KnownRate:
    return replace(known, rate=replace(known.rate, mean=mean))


def _noise(job_id: int, known: KnownRate, options: Options) -> float:
    """The rate that the scheduler is told ÷ the rate; the same at all times, for each job and GPU type."""
    if not options.rate_noise:
        return 1.0
    drawn = Random(f"{options.seed}:{job_id}:{known.gpu_type}")  # noqa: S311 - the same in each run
    return math.exp(drawn.gauss(0.0, options.rate_noise))
