"""Many jobs: equal jobs are solved as one, and what is left beyond a limit in random parts.

Sources: Narayanan et al., "Solving Large-Scale Granular Resource Allocation Problems Efficiently with POP" (SOSP 2021);
the shares of equal jobs in an optimum may be taken as equal, because the mean of optimal shares is optimal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random

import numpy as np

from scheduler.policies.gavel.problem import Floats, Problem, Rows

Objective = Callable[[Problem], Floats]
_PRICE_STEPS = 50


class Equal(StrEnum):
    """The jobs that are equal for an objective."""

    NONE = "none"  # the remaining work or the age of each job counts
    RATES = "rates"  # those with the same rates and GPUs
    TENANT = "tenant"  # those that also have the same tenant


@dataclass(frozen=True, slots=True)
class Solved:
    """Shares x, shape (n, k), and the rows and random parts in which the jobs were solved."""

    x: Floats
    rows: int
    parts: int


def solve(problem: Problem, objective: Objective, *, exact_up_to: int, equal: Equal, seed: int) -> Solved:
    """The shares of `objective`; exact for as many jobs, or classes of equal jobs, as `exact_up_to`.

    Beyond it, no pairs are made, and the classes are dealt at random into parts of that size, each with its part of the
    GPUs.
    """
    if len(problem) <= exact_up_to:
        return Solved(objective(problem), len(problem), 1)
    classes, class_of = equal_jobs(problem, equal)
    parts = -(-len(classes) // exact_up_to)
    x = np.zeros(classes.rates.shape)
    for rows in deal(len(classes), parts, seed):
        part = classes.rows(rows)
        x[rows] = objective(replace(part, supply=classes.supply * part.jobs / classes.jobs))
    return Solved(x[class_of], len(classes), parts)


def highest_level(problem: Problem, scale: Floats) -> float:
    """A bound that no shares exceed with their minimum over jobs of scale[m] · effective rate[m].

    For any prices of the types: all GPUs are worth the sum of what jobs pay for a level, each on the type where it is
    cheapest. Prices move to where demand is the supply, and the least bound on the way counts; in the optimum it is
    reached unless the time of jobs is what lacks.
    """
    speed = scale[:, None] * problem.rates
    gpus = np.divide(problem.gpus, speed, out=np.full(speed.shape, np.inf), where=problem.able)  # for a level of 1
    every, prices = np.arange(len(problem)), 1.0 / problem.supply
    best = float(speed.max(axis=1).min())
    for step in range(_PRICE_STEPS):
        choice = (gpus * prices).argmin(axis=1)
        demand = np.bincount(choice, problem.counts * gpus[every, choice], len(problem.types))
        level = float(prices @ problem.supply / (prices @ demand))
        best = min(best, level)
        prices = prices * np.exp((np.minimum(level * demand / problem.supply, 3.0) - 1.0) / math.sqrt(step + 1))
    return best


def equal_jobs(problem: Problem, equal: Equal) -> tuple[Problem, Rows]:
    """One row for each class of equal jobs, with its count; and the class of each job, shape (n,)."""
    if equal is Equal.NONE:
        every = np.arange(len(problem))
        return problem.rows(every), every
    keys = np.column_stack([problem.rates, problem.gpus])
    if equal is Equal.TENANT:
        keys = np.column_stack([keys, np.array(problem.tenants, dtype=float)])
    _, first, class_of, counts = np.unique(keys, axis=0, return_index=True, return_inverse=True, return_counts=True)
    return replace(problem.rows(first), counts=counts.astype(float)), class_of.reshape(-1)


def deal(count: int, parts: int, seed: int) -> Sequence[Rows]:
    """The first `count` rows, dealt into parts of nearly equal size; the same for the same seed."""
    order = list(range(count))
    if parts > 1:
        Random(seed).shuffle(order)  # noqa: S311 - the same in each replay
    return [np.array(sorted(order[part::parts]), dtype=np.intp) for part in range(parts)]
