"""Random problems for the objectives of gavel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scheduler.policies.gavel.problem import Floats, Problem


def problem(
    rates: Sequence[Sequence[float]] | Floats,
    supply: Sequence[float],
    *,
    gpus: Sequence[float] | None = None,
    tenants: Sequence[int] | None = None,
    weights: Mapping[int, float] | None = None,
    **fields: Any,
) -> Problem:
    """A problem; jobs are numbered from 1, the first is the oldest, and each has work for 1,000 s at rate 1."""
    matrix = np.array(rates, dtype=float)
    count, kinds = matrix.shape
    sizes = np.ones(count) if gpus is None else np.array(gpus, dtype=float)
    values: dict[str, Any] = {
        "left": np.full(count, 1000.0),
        "age_s": np.arange(count, 0, -1, dtype=float),
        "until_deadline_s": np.full(count, np.inf),
    }
    return Problem(
        ids=tuple(range(1, count + 1)),
        types=tuple("ABCDEFGH"[:kinds]),
        supply=np.array(supply, dtype=float),
        rates=matrix,
        gpus=np.repeat(sizes[:, None], kinds, axis=1),
        tenants=tuple(tenants or [1] * count),
        weights=weights or {},
        counts=np.ones(count),
        **values | fields,
    )


def drawn(seed: int) -> Problem:
    """Up to 30 jobs on up to 4 types; about a tenth of the rates are 0."""
    rng = np.random.default_rng(seed)
    count, kinds = int(rng.integers(1, 31)), int(rng.integers(1, 5))
    rates = rng.uniform(0.1, 10.0, (count, kinds)) * (rng.random((count, kinds)) > 0.1)
    rates[np.arange(count), rng.integers(0, kinds, count)] += 0.5
    return problem(
        rates,
        rng.integers(1, 20, kinds),
        gpus=rng.choice([1, 2, 4, 8], count),
        tenants=[int(tenant) for tenant in rng.integers(1, 4, count)],
        weights={1: 1.0, 2: 2.0, 3: 0.5},
        left=rng.uniform(10.0, 1e5, count),
        age_s=rng.uniform(0.0, 1e5, count),
    )
