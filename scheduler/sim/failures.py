"""Ends of the jobs of a trace: succeeded, failed or cancelled, by published statistics or by the trace itself.

1. `calibrate` finds how the odds of failing and of being cancelled rise with a job's GPU time, such that the trace
   matches the published shares of jobs and of GPU time.
2. `with_outcomes` draws each job's end from the seed and the job's id alone, so additional jobs change no other end.
3. `attempted` gives each job the work of one attempt. The simulator lets a failing job fail at the end of it, as often
   as its failure class says.

A trace has one run time for all attempts of a job together. Each attempt is assumed to take an equal part of it, so
that a simulation with the retries of the original cluster has the GPU time of the trace.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import blake2b
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from scheduler.sim.times import cause_at
from scheduler.sim.trace import Trace, TraceError, TraceJob
from scheduler.sim.work import FixedWork, Work

SUCCEEDED, CANCELLED, FAILED = "succeeded", "cancelled", "failed"


class Failures(StrEnum):
    """The source of the jobs' ends."""

    NONE = "none"  # no failures: jobs complete all work
    TRACE = "trace"  # the trace, where it has them
    PHILLY = "philly"
    PHILLY_PAPER = "philly_paper"
    PHILLY_TIMES = "philly_times"  # as many as in the paper, each after the published time of its class


class FailureClass(StrEnum):
    """The effect of a retry on a failed job."""

    HOPELESS = "hopeless"  # a user's error: every attempt fails
    TRANSIENT = "transient"  # a machine or network error: the next attempt succeeds


@dataclass(frozen=True, slots=True)
class Ending:
    """One way to end: its share of the jobs and of the GPU time."""

    status: str
    jobs: float
    gpu_time: float


@dataclass(frozen=True, slots=True)
class Statistics:
    """Published statistics of the ends of a cluster's jobs.

    `transient` and `attempts` are assumptions from the paper's failure classes (Jeon et al., USENIX ATC 2019, table 7):
    about one failed job in eight, of any size, has one caused by machines, storage or network (checkpoints, MPI, CUDA,
    preemption), and there are about two failed attempts per pair of failed job and class.
    """

    endings: tuple[Ending, ...]
    transient: float = 0.125  # share of the failed jobs that another attempt completes
    attempts: int = 2  # of a failed job, in its recorded time


STATISTICS: Mapping[Failures, Statistics] = MappingProxyType({
    # The released trace: 112,956 GPU jobs (Hu et al., NSDI 2024, table 2).
    Failures.PHILLY: Statistics((
        Ending(SUCCEEDED, 0.604, 0.321),
        Ending(CANCELLED, 0.090, 0.294),
        Ending(FAILED, 0.305, 0.386),
    )),
    # The paper's own window: 75 days, 96,260 jobs (Jeon et al., USENIX ATC 2019).
    Failures.PHILLY_PAPER: Statistics((
        Ending(SUCCEEDED, 0.693, 0.445),
        Ending(CANCELLED, 0.135, 0.377),
        Ending(FAILED, 0.172, 0.178),
    )),
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Propensity:
    """Odds of a job's ends by its GPU time g, s: each end weighs level · g^slope, and the first weighs 1.

    With slopes above 0, as calibrated for Philly, more GPU time makes success less likely.
    """

    statuses: tuple[str, ...]
    logs: tuple[float, ...]  # logarithms of the levels
    slopes: tuple[float, ...]

    def shares(self, gpu_s: float) -> tuple[float, ...]:
        """The probability of each status for a job of this GPU time."""
        log_gpu_s = math.log(max(gpu_s, 1.0))
        scores = [log + slope * log_gpu_s for log, slope in zip(self.logs, self.slopes, strict=True)]
        top = max(scores)
        weights = [math.exp(score - top) for score in scores]
        return tuple(weight / sum(weights) for weight in weights)


class CalibrationError(TraceError):
    """A trace that cannot match the shares: too few jobs, or jobs of equal length."""


def calibrate(trace: Trace, statistics: Statistics) -> Propensity:
    """The propensity with which the trace is expected to match the published shares of jobs and GPU time.

    Newton's method with halved steps on two equations for each ending but the first.

    Raises:
        CalibrationError: the jobs are all alike, or the shares are out of reach.
    """
    gpu_s = np.array([_gpu_s(job) for job in trace.jobs], dtype=np.float64)
    if not len(gpu_s) or not gpu_s.sum() > 0:
        raise CalibrationError(f"{trace.name}: no job has a run time")
    logs = np.log(np.maximum(gpu_s, 1.0))
    center = float(logs.mean())
    features = np.stack([np.ones_like(logs), logs - center])
    weights = np.stack([np.full_like(gpu_s, 1.0 / len(gpu_s)), gpu_s / gpu_s.sum()])
    wanted = _wanted(statistics.endings)
    others = len(statistics.endings) - 1
    found = np.zeros(2 * others)
    found[::2] = np.log([ending.jobs / statistics.endings[0].jobs for ending in statistics.endings[1:]])

    def shares(point: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        scores = np.vstack([np.zeros_like(logs), point.reshape(others, 2) @ features])
        raised = np.exp(scores - scores.max(axis=0))
        return np.asarray((raised / raised.sum(axis=0))[1:])

    def off(point: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.asarray((shares(point) @ weights.T).ravel() - wanted)

    for _ in range(100):
        miss = off(found)
        if np.abs(miss).max() < 1e-9:
            break
        chances = shares(found)
        slope = np.empty((2 * others, 2 * others))
        for row in range(others):
            for column in range(others):
                change = chances[row] * ((row == column) - chances[column])
                slope[2 * row : 2 * row + 2, 2 * column : 2 * column + 2] = (weights * change) @ features.T
        step, size = np.linalg.lstsq(slope, miss, rcond=None)[0], 1.0
        while size > 1e-6 and not np.linalg.norm(off(found - size * step)) < np.linalg.norm(miss):
            size /= 2
        found = found - size * step
    if np.abs(off(found)).max() > 1e-3:
        raise CalibrationError(f"{trace.name}: its jobs are too few or too alike to match the published shares")
    pairs = [(0.0, 0.0), *((float(level), float(slope)) for level, slope in found.reshape(others, 2))]
    return Propensity(
        statuses=tuple(ending.status for ending in statistics.endings),
        logs=tuple(level - slope * center for level, slope in pairs),
        slopes=tuple(slope for _, slope in pairs),
    )


def with_outcomes(trace: Trace, statistics: Statistics, seed: int, propensity: Propensity | None = None) -> Trace:
    """The trace with an end for each job, drawn from the seed and the job's id.

    Without a propensity, one is calibrated on this trace. With the same propensity, additional jobs change no other
    job's end.
    """
    fitting = propensity or calibrate(trace, statistics)

    def drawn(job: TraceJob) -> TraceJob:
        first, second = _uniforms(seed, job.id)
        status = _pick(fitting.statuses, fitting.shares(_gpu_s(job)), first)
        if status != FAILED:
            return replace(job, status=status, attempts=1, failure="")
        failure = _class_of(second, statistics)
        return replace(job, status=status, attempts=statistics.attempts, failure=failure)

    return replace(trace, jobs=tuple(map(drawn, trace.jobs)))


def attempted(trace: Trace, failures: Failures, seed: int) -> Trace:
    """The trace for the simulator: failing jobs with their class, and the work of one attempt each.

    Where the trace itself has the ends, the classes have Philly's shares.
    """
    if failures is Failures.NONE:
        return trace
    if failures is Failures.PHILLY_TIMES:
        ended = with_outcomes(trace, STATISTICS[Failures.PHILLY_PAPER], seed)
        return replace(ended, jobs=tuple(_timed(job, seed) for job in ended.jobs))
    if failures is Failures.TRACE:
        ended = _classified(trace, STATISTICS[Failures.PHILLY], seed)
    else:
        ended = with_outcomes(trace, STATISTICS[failures], seed)
    return replace(ended, jobs=tuple(map(_one_attempt, ended.jobs)))


@dataclass(frozen=True, slots=True)
class PartOfWork(Work):
    """One of `attempts` equally long parts of a work: the same work at `attempts` times the speed."""

    whole: Work
    attempts: int

    def seconds_left(self, done: float, gpu_type: str, layout: tuple[int, ...], speed: float) -> float:
        return self.whole.seconds_left(done, gpu_type, layout, speed) / self.attempts

    def advance(self, done: float, gpu_type: str, layout: tuple[int, ...], speed: float, seconds: float) -> float:
        return self.whole.advance(done, gpu_type, layout, speed, seconds * self.attempts)

    def remaining_s(self, done: float) -> float:
        return self.whole.remaining_s(done) / self.attempts

    def alone_s(self) -> float:
        return self.whole.alone_s() / self.attempts

    def speeds(self) -> tuple[float, ...]:
        return self.whole.speeds()


def _one_attempt(job: TraceJob) -> TraceJob:
    # Work before a success is not known to be lost: preemptions end attempts too.
    if job.status != FAILED or job.attempts == 1:
        return job
    return replace(job, work=PartOfWork(job.work, job.attempts))


def _timed(job: TraceJob, seed: int) -> TraceJob:
    """The job with a drawn cause and time to failure; a job that does not fail is unchanged."""
    if job.status != FAILED:
        return job
    which, when = _uniforms(seed, job.id, "cause")
    cause = cause_at(which)
    failure = FailureClass.TRANSIENT if cause.transient else FailureClass.HOPELESS
    return replace(job, work=FixedWork(cause.time_s(when)), attempts=1, failure=failure, cause=cause.name)


def _classified(trace: Trace, statistics: Statistics, seed: int) -> Trace:
    return replace(
        trace,
        jobs=tuple(
            replace(job, failure=_class_of(_uniforms(seed, job.id)[1], statistics)) if job.status == FAILED else job
            for job in trace.jobs
        ),
    )


def _class_of(at: float, statistics: Statistics) -> FailureClass:
    return FailureClass.TRANSIENT if at < statistics.transient else FailureClass.HOPELESS


def _wanted(endings: Sequence[Ending]) -> npt.NDArray[np.float64]:
    # Published shares are rounded and do not quite add up to 1.
    jobs, gpu_time = sum(each.jobs for each in endings), sum(each.gpu_time for each in endings)
    return np.array([part for each in endings[1:] for part in (each.jobs / jobs, each.gpu_time / gpu_time)])


def _pick(statuses: Sequence[str], shares: Sequence[float], at: float) -> str:
    for status, share in zip(statuses, shares, strict=True):
        at -= share
        if at < 0:
            return status
    return statuses[-1]


def _gpu_s(job: TraceJob) -> float:
    return job.gpus * job.work.alone_s()


def _uniforms(seed: int, job_id: int, what: str = "") -> tuple[float, float]:
    """Two numbers from 0 to below 1 that depend only on the arguments."""
    digest = blake2b(f"{seed}:{job_id}{what}".encode(), digest_size=16).digest()
    return int.from_bytes(digest[:8]) / 2**64, int.from_bytes(digest[8:]) / 2**64
