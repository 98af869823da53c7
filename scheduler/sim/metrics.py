"""The figures of one simulation; docs/operator/simulator.md gives each with its formula and source.

All figures are functions of the `Result`. Sums are exact (`fsum`), so no figure depends on the order of the jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from statistics import median

import numpy as np

from scheduler.predict import rho
from scheduler.sim.application_metrics import applications_of
from scheduler.sim.failures import CANCELLED, FAILED
from scheduler.sim.result import JobRecord, Result

INFEASIBLE = "infeasible"  # the outcome of a job that the cluster could never run; it counts nowhere

# The size classes of the queueing split: name, minimum and maximum number of GPUs.
SIZES: tuple[tuple[str, int, float], ...] = (
    ("1", 0, 1),
    ("2-4", 2, 4),
    ("5-8", 5, 8),
    (">8", 9, float("inf")),
)


@dataclass(frozen=True, slots=True)
class Queueing:
    """Waits of jobs of one size, with causes; totals in seconds over the ended jobs."""

    gpus: str  # the name of the size class
    jobs: int
    jct_mean_s: float | None
    fair_share_delay_s: float
    fragmentation_delay_s: float
    capacity_delay_s: float
    apart_delay_s: float
    order_delay_s: float
    not_eligible_delay_s: float

    @property
    def fair_share_delay_mean_s(self) -> float | None:
        """The mean per job; None without jobs."""
        return self._mean(self.fair_share_delay_s)

    @property
    def fragmentation_delay_mean_s(self) -> float | None:
        """The mean per job; None without jobs."""
        return self._mean(self.fragmentation_delay_s)

    @property
    def capacity_delay_mean_s(self) -> float | None:
        """The mean per job; None without jobs."""
        return self._mean(self.capacity_delay_s)

    @property
    def apart_delay_mean_s(self) -> float | None:
        """The mean per job; None without jobs."""
        return self._mean(self.apart_delay_s)

    @property
    def order_delay_mean_s(self) -> float | None:
        """The mean per job; None without jobs."""
        return self._mean(self.order_delay_s)

    @property
    def not_eligible_delay_mean_s(self) -> float | None:
        """The mean per job; None without jobs."""
        return self._mean(self.not_eligible_delay_s)

    def _mean(self, delay_s: float) -> float | None:
        return delay_s / self.jobs if self.jobs else None


@dataclass(frozen=True, slots=True)
class Ratios:
    """Mean, median and maximum of a ratio of several jobs; None where none has one."""

    mean: float | None
    p50: float | None
    max: float | None


@dataclass(frozen=True, slots=True)
class VcFigures:
    """The figures of one virtual cluster: preemptions and GPU-hours of all its jobs, the others of the ended ones."""

    vc: str
    quota_gpus: int
    jobs: int
    jct_mean_s: float | None
    fair_share_delay_mean_s: float | None
    fragmentation_delay_mean_s: float | None
    rho_cluster_mean: float | None
    rho_cluster_max: float | None
    rho_quota_mean: float | None
    rho_quota_max: float | None
    rho_quota_bounded_mean: float | None
    rho_quota_bounded_p50: float | None
    rho_quota_bounded_max: float | None
    preemptions: int
    gpu_hours: float
    quota_use: float | None  # of its quota's GPU time from the first submission to the last end; borrowed GPUs count


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of one run; None where no ended job has one.

    Figures about completion, fairness and queueing cover the ended jobs; preemptions, moves, failures and GPU-hours
    cover all jobs.
    """

    policy: str
    trace: str
    gpus: int
    jobs: int  # without jobs that the cluster could never run
    unfinished: int
    infeasible: int
    jct_mean_s: float | None
    jct_p50_s: float | None
    jct_p99_s: float | None
    makespan_s: float
    utilization: float | None
    rho_mean: float | None  # of the cluster
    rho_max: float | None
    rho_quota_mean: float | None
    rho_quota_max: float | None
    rho_bounded_mean: float | None  # of the cluster, with a floor of a minute of run time
    rho_bounded_p50: float | None
    rho_bounded_max: float | None
    rho_quota_bounded_mean: float | None
    rho_quota_bounded_p50: float | None
    rho_quota_bounded_max: float | None
    jain: float | None
    applications: int  # groups, and jobs of no group
    application_time_mean_s: float | None  # from the first submission to the last end
    application_rho_mean: float | None
    application_rho_max: float | None
    application_jain: float | None
    queueing: Queueing  # over all sizes
    by_size: tuple[Queueing, ...]
    by_vc: tuple[VcFigures, ...]  # in the order of their names
    gpu_hours: float
    lost_gpu_hours: float
    failed_gpu_hours: float  # not included in lost GPU-hours
    failed: int
    cancelled: int
    retries: int
    screened: int  # jobs that ran in the screening pool, and of these
    caught: int  # the ones that failed there
    unscreened: int  # jobs that waited too long and skipped screening
    screening_gpu_hours: float  # of the screening pool; not in `gpu_hours`
    saved_gpu_hours: float  # of the attempts that failed in screening instead of the cluster
    saveable_gpu_hours: float  # the same if screening saw every failure within its window
    screening_delay_p50_s: float | None  # from submission to the end of screening, for jobs that passed
    deadlines: int  # jobs that have one, and of these
    missed_deadlines: int  # those that ended after it, or never
    preemptions: int
    moves: int
    decisions: int
    events: int
    wall_s: float
    peak_mib: float


def summarize(result: Result) -> Summary:
    """The figures of this run."""
    feasible = [record for record in result.records if record.outcome != INFEASIBLE]
    ended = [record for record in feasible if record.ended_s is not None]
    times = np.array([jct_s(record) for record in ended], dtype=float)
    of_cluster = _ratios(rho_cluster(record, result.gpus) for record in ended)
    of_quota = _ratios(rho_quota(record) for record in ended)
    of_cluster_bounded = _ratios(rho_cluster_bounded(record, result.gpus) for record in ended)
    of_quota_bounded = _ratios(rho_quota_bounded(record) for record in ended)
    capacity_gpu_s = result.gpus * result.makespan_s
    asked = [record for record in feasible if record.screening_s is not None]
    due = [record for record in feasible if record.deadline_s is not None]
    applications = applications_of(feasible)
    application_rhos = [value for each in applications if (value := each.rho(result.gpus)) is not None]
    delays = [record.screening_s for record in asked if record.screening_s is not None and not record.caught]
    return Summary(
        policy=result.policy,
        trace=result.trace,
        gpus=result.gpus,
        jobs=len(feasible),
        unfinished=len(feasible) - len(ended),
        infeasible=len(result.records) - len(feasible),
        jct_mean_s=_mean(times.tolist()),
        jct_p50_s=float(np.percentile(times, 50)) if len(times) else None,
        jct_p99_s=float(np.percentile(times, 99)) if len(times) else None,
        makespan_s=result.makespan_s,
        utilization=result.busy_gpu_s / capacity_gpu_s if capacity_gpu_s > 0 else None,
        rho_mean=of_cluster.mean,
        rho_max=of_cluster.max,
        rho_quota_mean=of_quota.mean,
        rho_quota_max=of_quota.max,
        rho_bounded_mean=of_cluster_bounded.mean,
        rho_bounded_p50=of_cluster_bounded.p50,
        rho_bounded_max=of_cluster_bounded.max,
        rho_quota_bounded_mean=of_quota_bounded.mean,
        rho_quota_bounded_p50=of_quota_bounded.p50,
        rho_quota_bounded_max=of_quota_bounded.max,
        jain=jain([1.0 / value for record in ended if (value := rho_cluster(record, result.gpus)) is not None]),
        applications=len(applications),
        application_time_mean_s=_mean([each.taken_s for each in applications if each.taken_s is not None]),
        application_rho_mean=_mean(application_rhos),
        application_rho_max=max(application_rhos, default=None),
        application_jain=jain([1.0 / value for value in application_rhos]),
        queueing=_queueing("all", ended),
        by_size=tuple(
            _queueing(name, [record for record in ended if least <= record.gpus <= most]) for name, least, most in SIZES
        ),
        by_vc=tuple(_figures_of_vc(vc, members, result) for vc, members in sorted(_by_vc(feasible).items())),
        gpu_hours=fsum(record.service_gpu_s for record in feasible) / 3600.0,
        lost_gpu_hours=fsum(record.overhead_gpu_s for record in feasible) / 3600.0,
        failed_gpu_hours=fsum(record.failed_gpu_s for record in feasible) / 3600.0,
        failed=sum(record.outcome == FAILED for record in feasible),
        cancelled=sum(record.outcome == CANCELLED for record in feasible),
        retries=sum(record.attempts - 1 for record in feasible),
        screened=sum(record.screening_gpu_s > 0 for record in asked),
        caught=sum(record.caught for record in asked),
        unscreened=sum(record.screening_gpu_s == 0 for record in asked),
        screening_gpu_hours=fsum(record.screening_gpu_s for record in asked) / 3600.0,
        saved_gpu_hours=fsum(record.saved_gpu_s for record in asked) / 3600.0,
        saveable_gpu_hours=fsum(record.saveable_gpu_s for record in asked) / 3600.0,
        screening_delay_p50_s=float(np.percentile(delays, 50)) if delays else None,
        deadlines=len(due),
        missed_deadlines=sum(_misses_its_deadline(record) for record in due),
        preemptions=sum(record.preemptions for record in feasible),
        moves=sum(record.moves for record in feasible),
        decisions=result.decisions,
        events=result.events,
        wall_s=result.wall_s,
        peak_mib=result.peak_mib,
    )


def jct_s(record: JobRecord) -> float:
    """From submission to end, s; of a job that ended."""
    if record.ended_s is None:
        raise ValueError(f"job {record.id} has not ended")
    return record.ended_s - record.submitted_s


def isolated_s(record: JobRecord, cluster_gpus: int) -> float:
    """The run time of the job alone on 1/N of the cluster's GPU time, s.

    N is the time-average of the number of jobs in the cluster while this job was there.
    """
    return rho.isolated_s(record.alone_s, record.gpus, of_gpus=cluster_gpus, contention=record.contention)


def rho_cluster(record: JobRecord, cluster_gpus: int) -> float | None:
    """Finish-time fairness: the JCT over `isolated_s`; above 1, sharing the cluster cost the job time.

    None for a job that has not ended, and for one without work or time, which has no ratio.
    """
    return _rho(record, isolated_s(record, cluster_gpus)) if cluster_gpus > 0 else None


def rho_cluster_bounded(record: JobRecord, cluster_gpus: int) -> float | None:
    """`rho_cluster` where a run time of less than a minute counts as a minute, as production tells it."""
    return _bounded(record, isolated_s(record, cluster_gpus)) if cluster_gpus > 0 else None


def rho_quota(record: JobRecord) -> float | None:
    """The JCT over the time in a cluster of the quota, shared with the jobs of the own virtual cluster alone.

    Above 1, the jobs of other virtual clusters cost the job time. That time is `isolated_s` with the quota for the
    cluster, and with the virtual cluster's jobs for N. None where `rho_cluster` is None, and with a quota of 0.
    """
    return _rho(record, _isolated_on_quota_s(record)) if record.quota_gpus > 0 else None


def rho_quota_bounded(record: JobRecord) -> float | None:
    """`rho_quota` where a run time of less than a minute counts as a minute, as production tells it."""
    return _bounded(record, _isolated_on_quota_s(record)) if record.quota_gpus > 0 else None


def _isolated_on_quota_s(record: JobRecord) -> float:
    return rho.isolated_s(record.alone_s, record.gpus, of_gpus=record.quota_gpus, contention=record.vc_contention)


def jain(values: Sequence[float]) -> float | None:
    """Jain's index of fairness, (Σx)² ÷ (n·Σx²): 1 if all are equal, 1/n if one has everything.

    Jain, Chiu, Hawe: DEC research report TR-301, 1984.
    """
    largest = max(values, default=0.0)
    if largest <= 0:
        return None
    parts = [value / largest for value in values]  # the index is scale-free, so this keeps the squares finite
    return fsum(parts) ** 2 / (len(parts) * fsum(part * part for part in parts))


def _misses_its_deadline(record: JobRecord) -> bool:
    return record.ended_s is None or record.ended_s - record.submitted_s > (record.deadline_s or 0.0)


def _rho(record: JobRecord, isolated: float) -> float | None:
    if record.ended_s is None or record.alone_s < rho.MIN_S:
        return None
    return rho.ratio(jct_s(record), isolated)


def _bounded(record: JobRecord, isolated: float) -> float | None:
    return None if record.ended_s is None else rho.bounded(jct_s(record), record.alone_s, isolated)


def _by_vc(records: Iterable[JobRecord]) -> Mapping[str, Sequence[JobRecord]]:
    found: dict[str, list[JobRecord]] = {}
    for record in records:
        found.setdefault(record.vc, []).append(record)
    return found


def _ratios(values: Iterable[float | None]) -> Ratios:
    known = [value for value in values if value is not None]
    return Ratios(_mean(known), median(known) if known else None, max(known, default=None))


def _figures_of_vc(vc: str, records: Sequence[JobRecord], result: Result) -> VcFigures:
    ended = [record for record in records if record.ended_s is not None]
    waits = _queueing(vc, ended)
    of_cluster = _ratios(rho_cluster(record, result.gpus) for record in ended)
    of_quota = _ratios(rho_quota(record) for record in ended)
    bounded = _ratios(rho_quota_bounded(record) for record in ended)
    service_gpu_s = fsum(record.service_gpu_s for record in records)
    quota_gpu_s = records[0].quota_gpus * result.makespan_s
    return VcFigures(
        vc=vc,
        quota_gpus=records[0].quota_gpus,
        jobs=len(ended),
        jct_mean_s=waits.jct_mean_s,
        fair_share_delay_mean_s=waits.fair_share_delay_mean_s,
        fragmentation_delay_mean_s=waits.fragmentation_delay_mean_s,
        rho_cluster_mean=of_cluster.mean,
        rho_cluster_max=of_cluster.max,
        rho_quota_mean=of_quota.mean,
        rho_quota_max=of_quota.max,
        rho_quota_bounded_mean=bounded.mean,
        rho_quota_bounded_p50=bounded.p50,
        rho_quota_bounded_max=bounded.max,
        preemptions=sum(record.preemptions for record in records),
        gpu_hours=service_gpu_s / 3600.0,
        quota_use=service_gpu_s / quota_gpu_s if quota_gpu_s > 0 else None,
    )


def _queueing(name: str, ended: Sequence[JobRecord]) -> Queueing:
    return Queueing(
        gpus=name,
        jobs=len(ended),
        jct_mean_s=_mean([jct_s(record) for record in ended]),
        fair_share_delay_s=fsum(record.fair_share_delay_s for record in ended),
        fragmentation_delay_s=fsum(record.fragmentation_delay_s for record in ended),
        capacity_delay_s=fsum(record.capacity_delay_s for record in ended),
        apart_delay_s=fsum(record.apart_delay_s for record in ended),
        order_delay_s=fsum(record.order_delay_s for record in ended),
        not_eligible_delay_s=fsum(record.not_eligible_delay_s for record in ended),
    )


def _mean(values: Iterable[float]) -> float | None:
    numbers = list(values)
    return fsum(numbers) / len(numbers) if numbers else None
