"""A small trace with waits that depend on the queue: one pool, first come, first served."""

from functools import cache

import numpy as np

from scheduler.predict.waits import WaitJob

GPUS = 16.0


@cache
def trace(jobs: int = 600, seed: int = 1) -> tuple[WaitJob, ...]:
    """Jobs in the order of submission on `GPUS` GPUs, which start in that order and run for half their limit."""
    chance = np.random.default_rng(seed)
    found, free, running, start = [], GPUS, [], 0.0
    at = 1_700_000_000.0 + np.cumsum(chance.exponential(1800.0, jobs) * chance.choice([0.1, 1.9], jobs))
    for index in range(jobs):
        gpus, limit_s = float(chance.choice([1, 2, 4, 8])), float(chance.choice([600, 3600, 14400]))
        start = max(start, float(at[index]))
        running.sort()
        while running and running[0][0] <= start:
            free += running.pop(0)[1]
        while free < gpus:
            start, freed = running.pop(0)
            free += freed
        free -= gpus
        running.append((start + limit_s / 2, gpus))
        found.append(
            WaitJob(
                owner=int(chance.integers(8)),
                gpus=gpus,
                eligible_at=float(at[index]),
                limit_s=limit_s,
                started_at=start,
                ended_at=start + limit_s / 2,
            )
        )
    return tuple(found)
