"""Where apps above this one take part in the cycles of a pool. They register when Django starts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from django.db import DatabaseError, InterfaceError

from muster.fleet.models import Pool
from scheduler import model

log = logging.getLogger(__name__)

Kept = Callable[[Pool], Iterable[model.Reservation]]
After = Callable[[Pool], None]

_kept: list[Kept] = []
_after: list[After] = []


def also_kept(read: Kept) -> None:
    """Let every snapshot of a pool, also the small one under lock, hold these reservations too."""
    _kept.append(read)


def after_each_cycle(act: After) -> None:
    """Do this whenever a cycle of a pool has ended, also one that found nobody waiting, still under the pool's lock."""
    _after.append(act)


def kept_for_others(pool: Pool) -> tuple[model.Reservation, ...]:
    """What other apps keep in the pool."""
    return tuple(sorted((one for read in _kept for one in read(pool)), key=lambda one: one.job_id))


def end_cycle(pool: Pool) -> None:
    """Let other apps act on what the cycle left; what fails there is logged, and undoes nothing of the cycle."""
    for act in _after:
        try:
            act(pool)
        except (DatabaseError, InterfaceError):
            raise
        except Exception:
            log.exception("after_cycle_failed pool=%s", pool.name)
