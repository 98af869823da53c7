"""Linear programs over shares, solved by HiGHS.

The interior point method without crossover gives a point inside the set of optima, as the solver of Gavel's authors
does, and not a corner of it. Which of many optima is chosen decides completion times (docs/policies/gavel.md).
Iterations bound a solve, never the clock, so that a replay gives the same plan.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from scheduler.authoring import PolicyError
from scheduler.policies.gavel.problem import Floats, Problem

_MAX_ITERATIONS = 500

Rows = NDArray[np.intp]


@dataclass(slots=True)
class Program:
    """Maximise `goal` over the shares x[m, j] with x ≥ 0, Σ_j x[m, j] ≤ 1 and Σ_m GPUs[m, j] x[m, j] ≤ supply[j].

    Further columns, which are at least 0 and not bounded above, and further rows can be added.
    """

    problem: Problem
    _job: Rows = field(init=False)  # the job and the type of each column of x
    _type: Rows = field(init=False)
    _extra: int = 0
    _entries: list[tuple[Rows, Rows, Floats]] = field(default_factory=list)  # rows, columns, values
    _lower: list[Floats] = field(default_factory=list)
    _upper: list[Floats] = field(default_factory=list)
    _rows: int = 0

    def __post_init__(self) -> None:
        problem = self.problem
        self._job, self._type = np.nonzero(problem.able)
        ones, columns = np.ones(len(self._job)), np.arange(len(self._job))
        self._add(len(problem), self._job, columns, ones, lower=-np.inf, upper=1.0)
        used = (problem.gpus * problem.counts[:, None])[self._job, self._type]
        self._add(len(problem.types), self._type, columns, used, lower=-np.inf, upper=problem.supply)

    def column(self, count: int = 1) -> Rows:
        """The indices of `count` new columns."""
        first = len(self._job) + self._extra
        self._extra += count
        return np.arange(first, first + count)

    def at_least(
        self, weights: Floats, floor: Floats | float, extra: tuple[Rows, Floats] | None = None, only: Rows | None = None
    ) -> None:
        """For each job m, or `only` some: Σ_j weights[m, j] x[m, j] ≥ floor[m] + values[m] · column[m]."""
        chosen = np.arange(len(self.problem)) if only is None else only
        row_of = np.full(len(self.problem), -1)
        row_of[chosen] = np.arange(len(chosen))
        columns = np.nonzero(row_of[self._job] >= 0)[0]
        rows, values = row_of[self._job[columns]], weights[self._job, self._type][columns]
        if extra is not None:
            rows = np.concatenate([rows, np.arange(len(chosen))])
            columns = np.concatenate([columns, np.broadcast_to(extra[0], len(chosen))])
            values = np.concatenate([values, -np.broadcast_to(extra[1], len(chosen))])
        self._add(len(chosen), rows, columns, values, lower=floor, upper=np.inf)

    def solve(
        self, weights: Floats | None = None, extra: tuple[Rows, float] | None = None, extra_upper: float = np.inf
    ) -> tuple[Floats, Floats]:
        """The shares, shape (n, k), and the further columns, that maximise Σ weights · x + Σ value · extra.

        Raises:
            PolicyError: the program has no solution, or none was found.
        """
        import highspy  # noqa: PLC0415 - a third of a second, for this policy alone

        columns = len(self._job) + self._extra
        cost = np.zeros(columns)
        if weights is not None:
            cost[: len(self._job)] = weights[self._job, self._type]
        if extra is not None:
            cost[extra[0]] = extra[1]
        rows, cols, values = (np.concatenate([entry[part] for entry in self._entries]) for part in range(3))
        order = np.lexsort((rows, cols))
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = columns, self._rows
        model.sense_ = highspy.ObjSense.kMaximize
        model.col_cost_, model.col_lower_ = cost, np.zeros(columns)
        upper = np.full(columns, np.inf)
        upper[len(self._job) :] = extra_upper
        model.col_upper_ = upper
        model.row_lower_, model.row_upper_ = np.concatenate(self._lower), np.concatenate(self._upper)
        model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        model.a_matrix_.start_ = np.concatenate([[0], np.cumsum(np.bincount(cols, minlength=columns))])
        model.a_matrix_.index_, model.a_matrix_.value_ = rows[order], values[order]
        solved = None
        for method in ("ipm", "simplex"):  # the interior point stalls on a few degenerate programs
            solver = highspy.Highs()  # type: ignore[no-untyped-call]
            solver.setOptionValue("output_flag", False)
            solver.setOptionValue("threads", 1)
            solver.setOptionValue("solver", method)
            solver.setOptionValue("run_crossover", "off")
            solver.setOptionValue("presolve", "off")
            solver.setOptionValue("ipm_iteration_limit", _MAX_ITERATIONS)
            solver.setOptionValue("simplex_iteration_limit", 100 * columns + 1000)
            solver.passModel(model)
            solver.run()
            if solver.getModelStatus() == highspy.HighsModelStatus.kOptimal:
                solved = np.array(solver.getSolution().col_value)
                break
        if solved is None:
            raise PolicyError(f"the program of {len(self.problem)} jobs has no solution: {solver.getModelStatus()}")
        x = np.zeros(self.problem.rates.shape)
        x[self._job, self._type] = np.clip(solved[: len(self._job)], 0.0, 1.0)
        return x, solved[len(self._job) :]

    def _add(
        self, count: int, rows: Rows, columns: Rows, values: Floats, *, lower: Floats | float, upper: Floats | float
    ) -> None:
        self._entries.append((rows + self._rows, columns, values))
        self._lower.append(np.broadcast_to(lower, count).astype(float))
        self._upper.append(np.broadcast_to(upper, count).astype(float))
        self._rows += count
