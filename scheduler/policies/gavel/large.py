"""Many jobs: equal jobs are solved as one, and what is left beyond a limit in random parts.

Sources: Narayanan et al., "Solving Large-Scale Granular Resource Allocation Problems Efficiently with POP" (SOSP 2021);
the shares of equal jobs in an optimum may be taken as equal, because the mean of optimal shares is optimal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from random import Random

import numpy as np

from scheduler.policies.gavel.problem import Floats, Problem, Rows

Objective = Callable[[Problem], Floats]


class Equal(StrEnum):
    """Which jobs are equal for an objective."""

    NONE = "none"  # the remaining work or the age of each job counts
    RATES = "rates"  # those with the same rates and GPUs
    TENANT = "tenant"  # those that also have the same tenant


def solve(problem: Problem, objective: Objective, *, exact_up_to: int, equal: Equal, seed: int) -> Floats:
    """The shares of `objective`, shape (n, k); exact for as many jobs, or classes of equal jobs, as `exact_up_to`.

    Beyond it, no pairs are made, and the classes are dealt at random into parts of that size, each with its part of the
    GPUs.
    """
    if len(problem) <= exact_up_to:
        return objective(problem)
    classes, class_of = equal_jobs(problem, equal)
    parts = -(-len(classes) // exact_up_to)
    x = np.zeros(classes.rates.shape)
    for rows in deal(len(classes), parts, seed):
        part = classes.rows(rows)
        x[rows] = objective(replace(part, supply=classes.supply * part.jobs / classes.jobs))
    return x[class_of]


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
