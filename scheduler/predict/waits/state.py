"""A pool at one moment, as a forecast of a wait sees it: jobs in columns; those that wait, run and have started.

A trace's replay and production both make a `QueueState`, so that one function computes the features of both.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from scheduler.predict.history import stem_of

MAX_STARTED = 2000  # the latest starts of a pool that count as its history

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class WaitJob:
    """One job as it is known at its submission, and what has become of it.

    Times are epoch seconds. NaN: unknown, or not yet. The numbers of owner, kind, virtual cluster and GPU
    type are only compared with each other.
    """

    owner: int
    gpus: float
    eligible_at: float
    kind: int = -1  # one number for the jobs of an owner with one stem of the name
    vc: int = 0
    gpu_type: int = -1  # -1: any
    job_class: float = 0.0  # a job of a higher class goes first
    priority: float = 0.0  # within its class
    nodes: float = 1.0
    limit_s: float = float("nan")
    p50_s: float = float("nan")  # of its expected run time
    started_at: float = float("nan")
    ended_at: float = float("nan")  # without a start: it left the queue


def kind_of(owner: object, name: str) -> int:
    """The `kind` of a job of this owner and name."""
    return zlib.crc32(f"{owner}/{stem_of(name)}".encode())


@dataclass(frozen=True, slots=True)
class Jobs:
    """Jobs in columns, one row each; the fields are those of `WaitJob`."""

    owner: Floats
    gpus: Floats
    eligible_at: Floats
    kind: Floats
    vc: Floats
    gpu_type: Floats
    job_class: Floats
    priority: Floats
    nodes: Floats
    limit_s: Floats
    p50_s: Floats
    started_at: Floats
    ended_at: Floats

    @classmethod
    def of(cls, jobs: Iterable[WaitJob]) -> Jobs:
        """The jobs in the order given."""
        names = [one.name for one in fields(WaitJob)]
        rows = np.array([[getattr(job, name) for name in names] for job in jobs], dtype=np.float64)
        return cls(*rows.reshape(-1, len(names)).T.copy())

    def __len__(self) -> int:
        return len(self.owner)


@dataclass(frozen=True, slots=True)
class QueueState:
    """A pool at `now`. `waiting`, `running` and `started` are rows of `jobs`.

    - `waiting`: eligible and not started.
    - `running`: started and not ended. Their `ended_at` is unknown at `now` and is never read.
    - `started`: at most the `MAX_STARTED` latest starts, the latest last. Those with an end before `now` have ended.
    - `gpus`: the number of GPUs in service by GPU type, -1 for all types together. In a trace it is estimated.
    """

    now: float
    jobs: Jobs
    waiting: Ints
    running: Ints
    started: Ints
    gpus: dict[int, float]

    @classmethod
    def of(cls, now: float, jobs: Iterable[WaitJob], gpus: dict[int, float]) -> QueueState:
        """The state at `now` of a pool with these jobs; jobs that are not yet eligible at `now` do not count."""
        table = Jobs.of(jobs)
        started = np.flatnonzero(table.started_at <= now)
        started = started[np.argsort(table.started_at[started], kind="stable")]
        return cls(
            now,
            table,
            np.flatnonzero((table.eligible_at <= now) & ~(table.started_at <= now) & ~(table.ended_at <= now)),
            started[~(table.ended_at[started] <= now)],
            started[-MAX_STARTED:],
            gpus,
        )
