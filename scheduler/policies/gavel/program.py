"""Linear programs over shares, solved by HiGHS.

The interior point method without crossover gives a point inside the set of optima, as the solver of Gavel's authors
does, and not a corner of it. Which of many optima is chosen decides completion times (docs/policies/gavel.md).
Iterations bound a solve, never the clock, so that a replay gives the same plan.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from scheduler.authoring import PolicyError
from scheduler.policies.gavel.problem import Floats, Problem, Rows

_MAX_ITERATIONS = 500


@dataclass(slots=True)
class Program:
    """Maximise over the shares x with x ≥ 0, at most all of each job's time, and at most the supply of each type.

    Further columns, which are at least 0 and not bounded above, and further rows can be added.
    """

    problem: Problem
    # Each column of x: its row in x and its type. Each part of a column: its job, its column, and the job's rate there.
    _row: Rows = field(init=False)
    _type: Rows = field(init=False)
    _job: Rows = field(init=False)
    _column: Rows = field(init=False)
    _rate: Floats = field(init=False)
    _extra: int = 0
    _entries: list[tuple[Rows, Rows, Floats]] = field(default_factory=list)  # rows, columns, values
    _lower: list[Floats] = field(default_factory=list)
    _upper: list[Floats] = field(default_factory=list)
    _rows: int = 0

    def __post_init__(self) -> None:
        problem = self.problem
        job, kind = np.nonzero(problem.able)
        pair, pair_kind = np.nonzero(problem.pair_rates.min(axis=2) > 0)
        first, second = problem.pairs[pair].T
        self._row, self._type = np.concatenate([job, len(problem) + pair]), np.concatenate([kind, pair_kind])
        columns = np.arange(len(self._row))
        paired = columns[len(job) :]
        self._job = np.concatenate([job, first, second])
        self._column = np.concatenate([columns[: len(job)], paired, paired])
        both = problem.pair_rates[pair, pair_kind]
        self._rate = np.concatenate([problem.rates[job, kind], both[:, 0], both[:, 1]])
        self._add(len(problem), self._job, self._column, np.ones(len(self._job)), lower=-np.inf, upper=1.0)
        used = np.concatenate([(problem.gpus * problem.counts[:, None])[job, kind], problem.gpus[first, pair_kind]])
        self._add(len(problem.types), self._type, columns, used, lower=-np.inf, upper=problem.supply)

    def column(self, count: int = 1) -> Rows:
        """The indices of `count` new columns."""
        first = len(self._row) + self._extra
        self._extra += count
        return np.arange(first, first + count)

    def at_least(
        self, scale: Floats, floor: Floats | float, extra: tuple[Rows, Floats] | None = None, only: Rows | None = None
    ) -> None:
        """For each job m, or `only` some: scale[m] · effective rate[m] ≥ floor[m] + values[m] · column[m]."""
        chosen = np.arange(len(self.problem)) if only is None else only
        row_of = np.full(len(self.problem), -1)
        row_of[chosen] = np.arange(len(chosen))
        parts = np.nonzero(row_of[self._job] >= 0)[0]
        rows, columns = row_of[self._job[parts]], self._column[parts]
        values = (scale[self._job] * self._rate)[parts]
        if extra is not None:
            rows = np.concatenate([rows, np.arange(len(chosen))])
            columns = np.concatenate([columns, np.broadcast_to(extra[0], len(chosen))])
            values = np.concatenate([values, -np.broadcast_to(extra[1], len(chosen))])
        self._add(len(chosen), rows, columns, values, lower=floor, upper=np.inf)

    def solve(
        self, by_type: Floats | None = None, extra: tuple[Rows, float] | None = None, extra_upper: float = np.inf
    ) -> tuple[Floats, Floats]:
        """The shares, shape (n + p, k), and the further columns, that maximise the sum of the rates or of the columns.

        `by_type` has shape (k,): the worth of a rate on each type; the rate of a row counts for each of its jobs.

        Raises:
            PolicyError: the program has no solution, or none was found.
        """
        import highspy  # noqa: PLC0415 - a third of a second, for this policy alone

        columns = len(self._row) + self._extra
        cost = np.zeros(columns)
        if by_type is not None:
            worth = self._rate * self.problem.counts[self._job] * by_type[self._type[self._column]]
            np.add.at(cost, self._column, worth)
        if extra is not None:
            cost[extra[0]] = extra[1]
        rows, cols, values = (np.concatenate([entry[part] for entry in self._entries]) for part in range(3))
        order = np.lexsort((rows, cols))
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = columns, self._rows
        model.sense_ = highspy.ObjSense.kMaximize
        model.col_cost_, model.col_lower_ = cost, np.zeros(columns)
        upper = np.full(columns, np.inf)
        upper[len(self._row) :] = extra_upper
        model.col_upper_ = upper
        model.row_lower_, model.row_upper_ = np.concatenate(self._lower), np.concatenate(self._upper)
        model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        model.a_matrix_.start_ = np.concatenate([[0], np.cumsum(np.bincount(cols, minlength=columns))])
        model.a_matrix_.index_, model.a_matrix_.value_ = rows[order], values[order]
        solved = None
        for method in ("ipm", "simplex"):  # the interior point stalls on a few degenerate programs
            solver = highspy._core._Highs()  # the class around it prints a banner when it is made
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
        x = np.zeros((len(self.problem) + len(self.problem.pairs), len(self.problem.types)))
        x[self._row, self._type] = np.clip(solved[: len(self._row)], 0.0, 1.0)
        return x, solved[len(self._row) :]

    def _add(
        self, count: int, rows: Rows, columns: Rows, values: Floats, *, lower: Floats | float, upper: Floats | float
    ) -> None:
        self._entries.append((rows + self._rows, columns, values))
        self._lower.append(np.broadcast_to(lower, count).astype(float))
        self._upper.append(np.broadcast_to(upper, count).astype(float))
        self._rows += count
