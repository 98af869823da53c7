"""How the jobs of a trace end: succeeded, failed or cancelled, by published statistics or as the trace itself says.

1. `calibrate` finds how the odds of failing and of being cancelled rise with a job's GPU time, such that the trace
   comes to the published parts of the jobs and of the GPU time.
2. `with_outcomes` draws each job's end from the seed and the job's id alone: jobs that are added change nothing.
3. `attempted` gives each job the work of one attempt. The simulator has a failing job fail at the end of it, as often
   as the job's class of failure makes it.

A trace has one run time for all attempts of a job together. Each is assumed to take an equal part of it, so that a
simulation with the retries of the cluster that the trace is from has the GPU time of the trace.
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
    """Who says how jobs end."""

    NONE = "none"  # nobody: all work is done
    TRACE = "trace"  # the trace, where it says
    PHILLY = "philly"
    PHILLY_PAPER = "philly_paper"
    PHILLY_TIMES = "philly_times"  # as many as in the paper, each after as long as the paper says of its class


class FailureClass(StrEnum):
    """What a retry of a failed job comes to."""

    HOPELESS = "hopeless"  # the user's error: every attempt fails
    TRANSIENT = "transient"  # the machines' or the network's: the next attempt succeeds


@dataclass(frozen=True, slots=True)
class Ending:
    """One way to end: its part of the jobs, and of the GPU time."""

    status: str
    jobs: float
    gpu_time: float


@dataclass(frozen=True, slots=True)
class Statistics:
    """How the jobs of a cluster ended, as it was published.

    `transient` and `attempts` are assumptions, after the classes of failures that the paper tells apart (Jeon et al.,
    USENIX ATC 2019, table 7): about one failed job in eight has one that comes from the machines, the storage or the
    network (checkpoints, MPI, CUDA, preemption), whatever its size; and there are about two failed attempts for each
    pair of a failed job and a class.
    """

    endings: tuple[Ending, ...]
    transient: float = 0.125  # part of the failed jobs that another attempt would have healed
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
    """How the way a job ends depends on its GPU time g, s: each way weighs level · g^slope, and the first weighs 1.

    With slopes above 0, which the calibration finds for Philly, a job is the less likely to succeed the more GPU time
    it takes.
    """

    statuses: tuple[str, ...]
    logs: tuple[float, ...]  # of the levels
    slopes: tuple[float, ...]

    def shares(self, gpu_s: float) -> tuple[float, ...]:
        """How likely each of the statuses is for a job of so much GPU time."""
        log_gpu_s = math.log(max(gpu_s, 1.0))
        scores = [log + slope * log_gpu_s for log, slope in zip(self.logs, self.slopes, strict=True)]
        top = max(scores)
        weights = [math.exp(score - top) for score in scores]
        return tuple(weight / sum(weights) for weight in weights)


class CalibrationError(TraceError):
    """A trace that cannot come to the shares: too few jobs, or none that take longer than the others."""


def calibrate(trace: Trace, statistics: Statistics) -> Propensity:
    """The propensity with which the trace is expected to have the published parts of the jobs and of the GPU time.

    Newton's method with halved steps on two equations for each ending but the first. Where the jobs are all alike, or
    the shares are out of reach, raises a `CalibrationError`.
    """
    gpu_s = np.array([_gpu_s(job) for job in trace.jobs], dtype=np.float64)
    if not len(gpu_s) or not gpu_s.sum() > 0:
        raise CalibrationError(f"{trace.name}: no job that takes any time")
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
        raise CalibrationError(f"{trace.name}: its jobs are too few or too much alike to come to the published shares")
    pairs = [(0.0, 0.0), *((float(level), float(slope)) for level, slope in found.reshape(others, 2))]
    return Propensity(
        statuses=tuple(ending.status for ending in statistics.endings),
        logs=tuple(level - slope * center for level, slope in pairs),
        slopes=tuple(slope for _, slope in pairs),
    )


def with_outcomes(trace: Trace, statistics: Statistics, seed: int, propensity: Propensity | None = None) -> Trace:
    """The trace with an end for each job, drawn from the seed and the job's id.

    Without a propensity, the one that is calibrated on this trace. With one and the same propensity, jobs that are
    added change no other job's end.
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
    """The trace as the simulator plays it: who fails, in which class, and the work of one attempt.

    Where the trace itself says how jobs ended, the classes have Philly's shares.
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
class PartOfWork:
    """The work of one of several attempts that took equally long: the same work, so many times as fast."""

    whole: Work
    attempts: int

    def seconds_left(self, done: float, gpu_type: str, layout: tuple[int, ...], speed: float) -> float:
        """See `Work`."""
        return self.whole.seconds_left(done, gpu_type, layout, speed) / self.attempts

    def advance(self, done: float, gpu_type: str, layout: tuple[int, ...], speed: float, seconds: float) -> float:
        """See `Work`."""
        return self.whole.advance(done, gpu_type, layout, speed, seconds * self.attempts)

    def remaining_s(self, done: float) -> float:
        """See `Work`."""
        return self.whole.remaining_s(done) / self.attempts

    def alone_s(self) -> float:
        """See `Work`."""
        return self.whole.alone_s() / self.attempts

    def speeds(self) -> tuple[float, ...]:
        """See `Work`."""
        return self.whole.speeds()


def _one_attempt(job: TraceJob) -> TraceJob:
    # What the attempts before a success did is not known to have been lost: preemptions end attempts as well.
    if job.status != FAILED or job.attempts == 1:
        return job
    return replace(job, work=PartOfWork(job.work, job.attempts))


def _timed(job: TraceJob, seed: int) -> TraceJob:
    """The job with a cause and a time to fail that are drawn from those published; one that does not fail as it is."""
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
    # Published shares are rounded, and do not quite add up to 1.
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
    """Two numbers from 0 to below 1 that depend on nothing else."""
    digest = blake2b(f"{seed}:{job_id}{what}".encode(), digest_size=16).digest()
    return int.from_bytes(digest[:8]) / 2**64, int.from_bytes(digest[8:]) / 2**64
