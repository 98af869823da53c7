"""Fairness in two levels: between tenants by weight, and fairness or FIFO between the jobs of a tenant.

Source: Narayanan et al., Gavel (OSDI 2020), §4.3: water filling. All levels rise together until some jobs can rise no
further; those keep their level, their weight goes to the other jobs of their tenant, and the rest rises on.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from scheduler.policies.gavel.objectives import equal_rates
from scheduler.policies.gavel.problem import Floats, Problem
from scheduler.policies.gavel.program import Program

_MAX_RISES = 100
_STILL = 1e-5  # a level that can rise by less than this, relative to its height, is final
_SLACK = 1e-6  # of levels that were reached: the solver's own tolerance is smaller

Mask = NDArray[np.bool_]


def hierarchical(problem: Problem, *, fifo_within: bool) -> Floats:
    """The shares, shape (n, k): no level can be higher without lowering one that is no higher relative to its weight.

    Levels are those of `objectives.levels`.
    """
    scale = problem.size / equal_rates(problem)
    level, final = np.zeros(len(problem)), np.zeros(len(problem), dtype=bool)
    x = np.zeros((len(problem) + len(problem.pairs), len(problem.types)))
    for _ in range(_MAX_RISES):
        weight = weights(problem, final, fifo_within=fifo_within)
        if not weight.any():
            break
        program = Program(problem)
        rise = program.column()
        program.at_least(scale, kept(level), (rise, weight / weight.max()))
        x, extra = program.solve(extra=(rise, 1.0))
        level = np.where(weight > 0, kept(level) + weight / weight.max() * extra[0], level)
        stuck = bottlenecks(problem, scale, level, weight > 0)
        if not stuck.any():  # within the tolerance of the solver: nothing rises
            stuck = weight > 0
        final |= stuck
    return x


def weights(problem: Problem, final: Mask, *, fifo_within: bool) -> Floats:
    """The present weight of each job, shape (n,): a tenant's weight goes to its jobs that may still rise."""
    rows_of: defaultdict[int, list[int]] = defaultdict(list)
    for row, tenant in enumerate(problem.tenants):
        if not final[row]:
            rows_of[tenant].append(row)
    found = np.zeros(len(problem))
    for tenant, rows in rows_of.items():
        weight = problem.weights.get(tenant, 1.0)
        if fifo_within:
            found[min(rows, key=lambda row: (-problem.age_s[row], problem.ids[row]))] = weight
        else:
            found[rows] = weight / problem.counts[rows].sum()
    return found


def kept(level: Floats) -> Floats:
    """The levels that the shares must keep, shape (n,)."""
    found: Floats = level * (1 - _SLACK)
    return found


def bottlenecks(problem: Problem, scale: Floats, level: Floats, active: Mask) -> Mask:
    """The active jobs of which none can have a higher level while all levels are kept, shape (n,).

    A job that rises in one solution can rise: the mean of such solutions raises all of them.
    """
    stuck = active.copy()
    room = _STILL * float(level.max())
    while stuck.any():
        program, rows = Program(problem), np.nonzero(stuck)[0]
        rises = program.column(len(rows))
        program.at_least(scale, kept(level))
        program.at_least(scale, kept(level)[rows], (rises, np.ones(len(rows))), only=rows)
        _, extra = program.solve(extra=(rises, 1.0), extra_upper=10 * room)
        if extra.sum() <= room:
            break
        stuck[rows[extra >= extra.sum() / (2 * len(rows))]] = False
    return stuck
