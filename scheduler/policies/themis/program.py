"""The best rows of all bidders where several GPU types are offered: a mixed integer program, solved by HiGHS.

A binary column for each row of each bidder; each bidder has exactly one; of each type at most the offer is given. With
few types the program and its linear relaxation differ in a few columns, so that most columns can be left out:

1. The relaxation gives an upper bound and, for each column, how much it would lose against the best of its bidder.
2. The program of the columns that lose little gives a solution.
3. A column that loses more than the bound is above the solution is in no better one. Others go in, until none is left.

Nodes of the search bound a solve, never the clock, so that a replay gives the same outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduler.policies.themis.knapsack import Choice, Floats, Option

_GAP, _MAX_NODES = 1e-9, 1000
_FIRST_LOSS = 0.03  # of the columns with which the search begins
_ROUNDING = 1e-9


class _Program:
    """The columns of some bidders: their worths, GPUs, types and bidders, each of shape (columns,)."""

    def __init__(self, tables: Sequence[Sequence[Option]], capacities: Sequence[int]) -> None:
        self.columns = [(bidder, option) for bidder, table in enumerate(tables) for option in table]
        self.bidders, self.capacities = len(tables), np.array(capacities, dtype=float)
        self.bidder = np.array([bidder for bidder, _ in self.columns], dtype=np.intp)
        self.type = np.array([option.gpu_type for _, option in self.columns], dtype=np.intp)
        self.gpus = np.array([option.gpus for _, option in self.columns], dtype=float)
        self.worth = np.array([option.worth for _, option in self.columns])

    def relaxed(self, bidders: NDArray[np.bool_]) -> tuple[float, Floats]:
        """The optimum over fractions of rows, and how much each column loses, shape (columns,)."""
        from scipy.optimize import linprog  # noqa: PLC0415 - slow to load, and for this case alone

        of = bidders[self.bidder]
        matrix = self._matrix(of)
        solved = linprog(
            -self.worth[of],
            A_ub=matrix[self.bidders :],
            b_ub=self.capacities,
            A_eq=matrix[: self.bidders][bidders],
            b_eq=np.ones(int(bidders.sum())),
            method="highs",
        )
        if solved.x is None:
            raise RuntimeError(f"the auction of {bidders.sum()} bidders has no solution: {solved.message}")
        prices = np.maximum(0.0, -solved.ineqlin.marginals)
        net = self.worth - prices[self.type] * self.gpus
        most = np.full(self.bidders, -np.inf)
        np.maximum.at(most, self.bidder, net)
        return float(most[bidders].sum() + prices @ self.capacities), most[self.bidder] - net

    def solve(self, bidders: NDArray[np.bool_]) -> tuple[float, list[int]]:
        """The largest sum of worths, and the columns."""
        if not bidders.any():
            return 0.0, []
        bound, loss = self.relaxed(bidders)
        of, limit = bidders[self.bidder], _FIRST_LOSS
        while True:
            inside = of & (loss <= limit)
            found = self._search(inside, bidders)
            if found is not None:
                total = float(self.worth[found].sum())
                if bound - total <= limit or inside.sum() == of.sum():
                    return total, found
                limit = bound - total + _ROUNDING * max(1.0, abs(bound))
            elif inside.sum() == of.sum():
                raise RuntimeError(f"the auction of {bidders.sum()} bidders has no solution")
            else:
                limit *= 10

    def _search(self, inside: NDArray[np.bool_], bidders: NDArray[np.bool_]) -> list[int] | None:
        from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415

        where = np.nonzero(inside)[0]
        one = bidders.astype(float)
        solved = milp(
            -self.worth[where],
            constraints=LinearConstraint(
                self._matrix(inside),
                np.concatenate([one, np.full(len(self.capacities), -np.inf)]),
                np.concatenate([one, self.capacities]),
            ),
            bounds=Bounds(0, 1),
            integrality=np.ones(len(where)),
            options={"mip_rel_gap": _GAP, "node_limit": _MAX_NODES},
        )
        return None if solved.x is None else [int(column) for column in where[solved.x > 0.5]]

    def _matrix(self, inside: NDArray[np.bool_]) -> Any:
        from scipy.sparse import coo_array  # noqa: PLC0415

        where = np.nonzero(inside)[0]
        columns = np.arange(len(where))
        rows = np.concatenate([self.bidder[where], self.bidders + self.type[where]])
        values = np.concatenate([np.ones(len(where)), self.gpus[where]])
        shape = (self.bidders + len(self.capacities), len(where))
        return coo_array((values, (rows, np.concatenate([columns, columns]))), shape).tocsr()


def best(tables: Sequence[Sequence[Option]], capacities: Sequence[int]) -> Choice:
    program = _Program(tables, capacities)
    total, found = program.solve(np.ones(len(tables), dtype=bool))
    picked = [program.columns[column][1] for column in sorted(found)]
    return Choice(total, tuple(option if option.row is not None else None for option in picked))


def without_each(tables: Sequence[Sequence[Option]], capacities: Sequence[int]) -> list[float]:
    program = _Program(tables, capacities)
    every = np.ones(len(tables), dtype=bool)
    totals = []
    for index in range(len(tables)):
        others = every.copy()
        others[index] = False
        totals.append(program.solve(others)[0])
    return totals
