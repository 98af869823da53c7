"""Hooks by which apps above this one take part in cycles. They register when Django starts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from django.db import DatabaseError, InterfaceError

from muster.fleet.models import Pool
from scheduler import model

log = logging.getLogger(__name__)

ReadReservations = Callable[[Pool], Iterable[model.Reservation]]
After = Callable[[Pool], None]

_reservation_sources: list[ReadReservations] = []
_after: list[After] = []


def add_reservations_from(read: ReadReservations) -> None:
    """Add the reservations of a source to every snapshot of a pool, including the small one under lock."""
    _reservation_sources.append(read)


def after_each_cycle(act: After) -> None:
    """Call a function after every cycle of a pool, under the pool's lock, even if no job was waiting."""
    _after.append(act)


def reservations_of_other_apps(pool: Pool) -> tuple[model.Reservation, ...]:
    """The reservations of other apps in the pool."""
    return tuple(sorted((one for read in _reservation_sources for one in read(pool)), key=lambda one: one.job_id))


def end_cycle(pool: Pool) -> None:
    """Run the hooks of other apps after a cycle. A failing hook is logged and undoes nothing of the cycle."""
    for act in _after:
        try:
            act(pool)
        except (DatabaseError, InterfaceError):
            raise
        except Exception:
            log.exception("after_cycle_failed pool=%s", pool.name)
