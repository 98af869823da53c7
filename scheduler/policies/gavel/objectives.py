"""The objectives: functions from a problem to shares x of shape (n, k).

Sources: Narayanan et al., Gavel (OSDI 2020), §4 and appendix; Le et al., AlloX (EuroSys 2020); Chaudhary et al.,
Gandiva_fair (EuroSys 2020), as in Shockwave's artifact. docs/policies/gavel.md has the formulas.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from scheduler.policies.gavel.problem import Floats, Problem
from scheduler.policies.gavel.program import Program

_MAX_STEPS = 30  # of the search for the least finish-time ratio
_CLOSE = 1e-6


def effective(problem: Problem, x: Floats) -> Floats:
    """The effective rates of all jobs, alone and in pairs, shape (n,)."""
    found: Floats = (problem.rates * x[: len(problem)]).sum(axis=1)
    paired = x[len(problem) :]
    if len(paired):
        np.add.at(found, problem.pairs, (problem.pair_rates * paired[:, :, None]).sum(axis=1))
    return found


def equal_rates(problem: Problem) -> Floats:
    """The rates with time divided between the types in proportion to their supply, shape (n,)."""
    found: Floats = problem.rates @ (problem.supply / problem.supply.sum())
    return found


def isolated_rates(problem: Problem) -> Floats:
    """The rates of each job alone on an n-th of each type, shape (n,)."""
    shares = problem.supply[None, :] / problem.jobs / problem.gpus
    shares = shares / np.maximum(1.0, shares.sum(axis=1, keepdims=True))
    return effective(problem, shares)


def remaining(problem: Problem) -> Floats:
    """The remaining work, shape (n,); a job of unknown work has the median time of the others at its fastest rate."""
    fastest = problem.rates.max(axis=1)
    known = np.isfinite(problem.left)
    usual_s = float(np.median((problem.left / fastest)[known])) if known.any() else 1.0
    return np.where(known, problem.left, usual_s * fastest)


def fairest(problem: Problem, scale: Floats) -> Floats:
    """The shares that maximise the minimum over jobs of scale[m] · effective rate[m]."""
    program = Program(problem)
    least = program.column()
    program.at_least(scale, 0.0, (least, np.ones(1)))
    return program.solve(extra=(least, 1.0))[0]


def level_scale(problem: Problem) -> Floats:
    """The factor of effective rates in `max_min`, shape (n,): GPUs / T·x_equal."""
    return problem.size / equal_rates(problem)


def levels(problem: Problem, x: Floats) -> Floats:
    """The levels that `max_min` raises, shape (n,): GPUs · T·x / T·x_equal."""
    return effective(problem, x) * level_scale(problem)


def max_min(problem: Problem) -> Floats:
    """Least attained service: the lowest level is as high as can be (§4.1)."""
    return fairest(problem, level_scale(problem))


def makespan(problem: Problem) -> Floats:
    """The last of the present jobs ends as early as can be: the smallest T·x / remaining work is largest (§4.2)."""
    scale = 1.0 / remaining(problem)
    return fairest(problem, scale / scale.max())


def throughput(problem: Problem) -> Floats:
    """The sum of the effective rates, each in its job's own unit, is as large as can be."""
    return Program(problem).solve(np.ones(len(problem.types)))[0]


def cost(problem: Problem, prices: Mapping[str, float]) -> Floats:
    """The sum of the effective rates per price of the type is as large as can be while deadlines are met (§4.2).

    The default price is 1. If not all deadlines can be met, each of their jobs gets the same part of the rate that it
    needs, the largest possible.
    """
    program, need = Program(problem), needed_rates(problem)
    rows = np.nonzero(need)[0]
    if len(rows):
        scale = 1.0 / np.where(need > 0, need, np.inf)
        feasible = Program(problem)
        part = feasible.column()
        feasible.at_least(scale, 0.0, (part, np.ones(1)), only=rows)
        _, met = feasible.solve(extra=(part, 1.0), extra_upper=1.0)
        program.at_least(scale, met[0] * (1 - _CLOSE), only=rows)
    return program.solve(np.array([1.0 / prices.get(kind, 1.0) for kind in problem.types]))[0]


def needed_rates(problem: Problem) -> Floats:
    """The rate at which each job just meets its deadline, shape (n,); 0 without a deadline that it can still meet."""
    with np.errstate(divide="ignore"):
        need = remaining(problem) / problem.until_deadline_s
    found: Floats = np.where((need > 0) & (need <= problem.rates.max(axis=1)), need, 0.0)
    return found


def finish_time(problem: Problem, isolated_s: Mapping[int, float]) -> Floats:
    """The largest finish-time ratio is as small as can be (Themis, as in Gavel §4.1).

    The ratio of a job is (age + left / T·x) / (isolated_s + left / isolated rate); `isolated_s` is the time, by id,
    that the work done so far would have taken alone. For a given ratio each job needs an effective rate. The shares
    that exceed these needs by the largest factor reach a smaller ratio; this is repeated until the ratio stays.
    """
    left = remaining(problem)
    alone_s = np.array([isolated_s[job_id] for job_id in problem.ids]) + left / isolated_rates(problem)

    def ratio(x: Floats) -> float:
        return float(((problem.age_s + left / effective(problem, x)) / alone_s).max())

    best = makespan(problem)
    reached = ratio(best)
    for _ in range(_MAX_STEPS):
        need = left / (reached * alone_s - problem.age_s)
        scale = 1.0 / need
        x = fairest(problem, scale / scale.max())
        found = ratio(x)
        if not found < reached * (1 - _CLOSE):
            break
        best, reached = x, found
    return best


def gandiva_fair(problem: Problem) -> Floats:
    """Each job gets an n-th of each type, whatever its size."""
    shares = np.where(problem.able, problem.supply[None, :] / problem.jobs, 0.0)
    capped: Floats = shares / np.maximum(1.0, shares.sum(axis=1, keepdims=True))
    return capped


def fifo(problem: Problem) -> Floats:
    """The oldest jobs get the type that is fastest for them among those with enough GPUs left.

    The first job for which no type has enough GPUs left ends the pass, so that no job overtakes it.
    """
    x, left = np.zeros(problem.rates.shape), problem.supply.copy()
    for row in np.argsort(-problem.age_s, kind="stable"):
        fits = problem.gpus[row] <= left
        if not (fits & problem.able[row]).any():
            break
        column = int(np.where(fits, problem.rates[row], -1.0).argmax())
        x[row, column] = 1.0
        left[column] -= problem.gpus[row, column]
    return x
