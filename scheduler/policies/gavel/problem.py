"""The question that an objective answers: jobs, GPU types, rates and what is left of each job, as arrays.

Source: Narayanan et al., Gavel (OSDI 2020), §3. With n jobs and k GPU types, `x[m, j]` is the share of time of job m on
type j, and `sum(rates[m] * x[m])` its effective rate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from scheduler.authoring import Config, Cycle, Job, Shares, Unit, preferred

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

# A type on which a job is slower than this, relative to its fastest, is no choice for it: it would never end there,
# and the numbers of the program stay in range.
_SLOWEST = 1e-6
_FASTEST = 1e9  # per second: a higher rate is a mistake, and counts as unknown


@dataclass(frozen=True, slots=True)
class Problem:
    """The jobs and GPU types of one solve; `supply` has shape (k,), `rates` and `gpus` (n, k), the others (n,).

    A rate of 0 means that the job cannot run on the type. Rates are in any unit of the job per second, and `left` is in
    that unit; NaN is unknown. `age_s` is the time since the submission, and `until_deadline_s` the
    time to the deadline: negative after it, infinity without one.

    With p `pairs` of jobs that may share their GPUs, shape (p, 2), shares have shape (n + p, k): the rows after the
    first n are those of the pairs. `pair_rates` has shape (p, k, 2), and is 0 where the two cannot share.
    """

    ids: tuple[int, ...]
    types: tuple[str, ...]
    supply: Floats
    rates: Floats
    gpus: Floats
    left: Floats
    age_s: Floats
    until_deadline_s: Floats
    tenants: tuple[int, ...]
    weights: Mapping[int, float]  # of tenants
    counts: Floats  # how many equal jobs a row stands for
    pairs: Rows = field(default_factory=lambda: np.zeros((0, 2), dtype=np.intp))
    pair_rates: Floats = field(default_factory=lambda: np.zeros((0, 1, 2)))

    def __post_init__(self) -> None:
        if not len(self.pairs):
            object.__setattr__(self, "pair_rates", np.zeros((0, len(self.types), 2)))

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def able(self) -> NDArray[np.bool_]:
        """True where a job can run, shape (n, k)."""
        found: NDArray[np.bool_] = self.rates > 0
        return found

    @property
    def size(self) -> Floats:
        """The GPUs of each job, on the type where it needs fewest."""
        smallest: Floats = np.where(self.able, self.gpus, np.inf).min(axis=1)
        return smallest

    @property
    def jobs(self) -> float:
        """The number of jobs."""
        return float(self.counts.sum())

    def rows(self, chosen: Sequence[int] | Rows) -> Problem:
        """The problem of some jobs alone, without pairs."""
        picked = np.asarray(chosen, dtype=np.intp)
        return replace(
            self,
            ids=tuple(self.ids[row] for row in picked),
            rates=self.rates[picked],
            gpus=self.gpus[picked],
            left=self.left[picked],
            age_s=self.age_s[picked],
            until_deadline_s=self.until_deadline_s[picked],
            tenants=tuple(self.tenants[row] for row in picked),
            counts=self.counts[picked],
            pairs=np.zeros((0, 2), dtype=np.intp),
        )


def problem_of(cycle: Cycle, *, aware: bool) -> Problem:
    """The problem of the jobs that wait or may stop, on the GPUs that other jobs leave them.

    Unknown rates are taken as the mean of the job's known ones. Without `aware`, a job has the rate 1 on each
    type that it accepts, and its remaining work is in seconds on its preferred one.
    """
    runs = {run.job.id: run for run in cycle.running()}
    jobs = sorted(
        [*cycle.waiting(), *(run.job for run in runs.values() if run.job.preemptible)], key=lambda job: job.id
    )
    supply = {kind: float(gpus) for kind, gpus in cycle.supply().items()}
    for run in runs.values():
        if not run.job.preemptible:
            held = cycle.held(run)
            supply[held.gpu_type or ""] = supply.get(held.gpu_type or "", 0.0) - held.gpus
    types = tuple(kind for kind, gpus in sorted(supply.items()) if gpus > 0)
    found: list[tuple[Job, Mapping[str, Config], Mapping[str, float]]] = []
    for job in jobs:
        accepted = {kind: config for kind, config in preferred(cycle.configs(job)).items() if kind in types}
        known = rates_on(cycle, job, accepted, aware=aware)
        if any(known.values()):
            found.append((job, accepted, known))
    shape = (len(found), len(types))
    rates_, gpus = np.zeros(shape), np.ones(shape)
    left = np.full(len(found), np.nan)
    for row, (job, configs, rates) in enumerate(found):
        for column, kind in enumerate(types):
            rates_[row, column] = rates.get(kind, 0.0)
            gpus[row, column] = configs[kind].gpus if kind in configs else 1
        remaining_s = runs[job.id].remaining_s(cycle.now) if job.id in runs else job.remaining_s
        if remaining_s is not None:
            scale = _scale_of_work(job, configs, rates) if aware else 1.0
            left[row] = max(remaining_s, 1.0) * scale
    return Problem(
        ids=tuple(job.id for job, _, _ in found),
        types=types,
        supply=np.array([supply[kind] for kind in types]),
        rates=rates_,
        gpus=gpus,
        left=left,
        age_s=np.array([max(0.0, cycle.now - job.submitted_at) for job, _, _ in found]),
        until_deadline_s=np.array(
            [math.inf if job.deadline_at is None else job.deadline_at - cycle.now for job, _, _ in found]
        ),
        tenants=tuple(job.tenant_id for job, _, _ in found),
        weights=cycle.weights(),
        counts=np.ones(len(found)),
    )


def rates_on(cycle: Cycle, job: Job, configs: Mapping[str, Config], *, aware: bool) -> Mapping[str, float]:
    """The rate of a job by GPU type; 0 where it cannot run."""
    told = {kind: cycle.rate(job, config) for kind, config in configs.items()}
    known = {kind: rate.mean for kind, rate in told.items() if rate is not None and 0 <= rate.mean <= _FASTEST}
    fastest = max(known.values(), default=0.0)
    known = {kind: rate if rate > fastest * _SLOWEST else 0.0 for kind, rate in known.items()}
    positive = [rate for rate in known.values() if rate > 0]
    usual = sum(positive) / len(positive) if positive else 1.0
    rates = {kind: known.get(kind, usual) for kind in configs}
    return rates if aware else {kind: float(rate > 0) for kind, rate in rates.items()}


def shares_of(problem: Problem, x: Floats) -> Shares:
    """The shares by job or pair and type, within their bounds to the last digit."""
    alone, paired = x[: len(problem)], np.clip(x[len(problem) :], 0.0, 1.0)
    alone = np.where(problem.able, np.clip(alone, 0.0, 1.0), 0.0)
    pairs = problem.pairs[: len(paired)]
    time = alone.sum(axis=1)
    np.add.at(time, pairs, paired.sum(axis=1)[:, None])
    time = np.maximum(1.0, time)
    rows = np.concatenate([alone / time[:, None], paired / time[pairs].max(axis=1, initial=1.0)[:, None]])
    units: list[Unit] = [(job_id,) for job_id in problem.ids]
    units += [(problem.ids[first], problem.ids[second]) for first, second in pairs]
    return {
        unit: {kind: float(share) for kind, share in zip(problem.types, row, strict=True) if share > 0}
        for unit, row in zip(units, rows, strict=True)
    }


def _scale_of_work(job: Job, configs: Mapping[str, Config], rates: Mapping[str, float]) -> float:
    """The rate for which the job's remaining seconds hold."""
    if job.expected_rate is not None and math.isfinite(job.expected_rate) and job.expected_rate > 0:
        return job.expected_rate
    return next((rates[kind] for kind in configs if rates[kind] > 0), 1.0)
