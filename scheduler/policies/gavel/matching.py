"""AlloX: which job runs on which GPU, and in which order, so that the mean completion time is least.

Source: Le et al., "AlloX: Compute Allocation in Hybrid Clusters" (EuroSys 2020), §4, as in Gavel's artifact. A job that
is the p-th from the end of a GPU's queue adds p times its run time to the sum of completion times, so the order is a
matching of least cost between jobs and positions.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from scheduler.policies.gavel.objectives import remaining
from scheduler.policies.gavel.problem import Floats, Problem

MAX_JOBS = 1000  # the oldest waiting jobs that take part
_MAX_CELLS = 4_000_000  # of the matrix of costs


def allox(problem: Problem, kept: Mapping[int, str]) -> Floats:
    """One GPU for the first job of each queue, shape (n, k). Only jobs with one GPU take part.

    `kept` are the types that jobs hold by the last matching, by id; they keep them to their ends.
    """
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 - slow to load, and for this objective alone

    x, supply = np.zeros(problem.rates.shape), problem.supply.copy()
    waiting: list[int] = []
    for row, job_id in enumerate(problem.ids):
        if problem.size[row] != 1:
            continue
        column = problem.types.index(kept[job_id]) if kept.get(job_id) in problem.types else None
        if column is not None and supply[column] >= 1 and problem.able[row, column]:
            x[row, column] = 1.0
            supply[column] -= 1
        else:
            waiting.append(row)
    rows = np.array(sorted(waiting, key=lambda row: (-problem.age_s[row], problem.ids[row]))[:MAX_JOBS], dtype=np.intp)
    types = np.repeat(np.arange(len(problem.types)), np.floor(supply).astype(int))
    if not len(rows) or not len(types):
        return x
    able, rates = problem.able[rows][:, types], problem.rates[rows][:, types]
    left = remaining(problem)[rows]
    run_s = np.where(
        able, left[:, None] / np.where(able, rates, 1.0), (left / problem.rates[rows].max(axis=1)).max() * 1e6
    )
    positions = max(-(-len(rows) // len(types)) + 1, min(len(rows), _MAX_CELLS // (len(rows) * len(types))))
    costs = np.concatenate([run_s * position for position in range(1, positions + 1)], axis=1)
    chosen, cells = linear_sum_assignment(costs)
    first: dict[int, tuple[int, int]] = {}  # of each GPU: the position furthest from the end, and its row
    for row, cell in zip(chosen, cells, strict=True):
        position, gpu = divmod(int(cell), len(types))
        first[gpu] = max(first.get(gpu, (-1, -1)), (position, int(row)))
    for gpu, (_, row) in first.items():
        if able[row, gpu]:
            x[rows[row], types[gpu]] = 1.0
    return x
