"""Facts of elastic jobs for policies: their speeds by number of GPUs, and the work that is left."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from muster.jobs.attempt.estimates import quantiles_of
from scheduler import model
from scheduler.predict.runtimes import Source, corrected_at
from scheduler.predict.scaling import speeds_of


def with_sizes(snapshot: model.Snapshot) -> model.Snapshot:
    """The snapshot with the speeds and the remaining time of its elastic jobs."""
    if not any(job.request.elastic for job in (*snapshot.waiting, *(run.job for run in snapshot.running))):
        return snapshot
    return replace(
        snapshot,
        waiting=tuple(sized(job) if job.request.elastic else job for job in snapshot.waiting),
        running=tuple(
            replace(run, job=sized(run.job, gpus=run.gpus, held_s=snapshot.now - run.placed_at))
            if run.job.request.elastic
            else run
            for run in snapshot.running
        ),
    )


def sized(job: model.Job, *, gpus: int = 0, held_s: float = 0.0) -> model.Job:
    """The elastic job with its speeds, and with `remaining_s` of the size that it asks for.

    Its ended attempts count as one on their mean number of GPUs; the live one has had `gpus` for `held_s`.
    """
    request = job.request
    if request.elastic is None:
        return job
    job = replace(job, speeds=speeds_of(_measured(job), request.max_gpus))
    if job.expected_s is None:
        return job
    mean_gpus = round(job.attained_gpu_s / job.ran_s) if job.ran_s > 0 else 0
    done_s = job.ran_s * job.speed_on(mean_gpus)
    stored = quantiles_of(job.expected_s, job.expected_p10_s, job.expected_p90_s, Source.HISTORY)
    now = corrected_at(stored, ran_s=done_s + max(held_s, 0.0) * job.speed_on(gpus), limit_s=None)
    return replace(
        job,
        expected_s=now.p50_s,
        expected_p10_s=None if job.expected_p10_s is None else now.p10_s,
        expected_p90_s=None if job.expected_p90_s is None else now.p90_s,
        remaining_s=max(0.0, now.p50_s - done_s),
    )


def _measured(job: model.Job) -> dict[int, float]:
    """The measured rates by number of GPUs, of the GPU type on which most sizes are measured."""
    by_type: defaultdict[str, dict[int, float]] = defaultdict(dict)
    for known in job.rates:
        if known.rate.source == "measured":
            by_type[known.gpu_type][known.gpus] = known.rate.mean
    return max(by_type.values(), key=len, default={})
