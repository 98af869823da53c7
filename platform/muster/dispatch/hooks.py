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

_reservation_sources: list[tuple[ReadReservations, str]] = []
_after: list[tuple[After, str]] = []


def add_reservations_from(read: ReadReservations, *, unless_empty: str) -> None:
    """Add the reservations of a source to every snapshot of a pool, including the small one under lock.

    `unless_empty` is an SQL condition on `pool.id`: whether the pool may have any. `read` is called only then.
    """
    _reservation_sources.append((read, unless_empty))


def after_each_cycle(act: After, *, unless_empty: str) -> None:
    """Call a function after every cycle of a pool, under the pool's lock, even if no job was waiting.

    `unless_empty` is an SQL condition on `pool.id`: whether there may be anything to do. `act` is called only then.
    """
    _after.append((act, unless_empty))


def has_reservations() -> str:
    """The SQL condition on `pool.id` under which other apps have reservations in the pool."""
    return _any_of(condition for _, condition in _reservation_sources)


def has_work_after() -> str:
    """The SQL condition on `pool.id` under which other apps act after a cycle."""
    return _any_of(condition for _, condition in _after)


def _any_of(conditions: Iterable[str]) -> str:
    return " OR ".join(f"({condition})" for condition in conditions) or "false"


def reservations_of_other_apps(pool: Pool) -> tuple[model.Reservation, ...]:
    return tuple(sorted((one for read, _ in _reservation_sources for one in read(pool)), key=lambda one: one.job_id))


def end_cycle(pool: Pool) -> None:
    """Run the hooks of other apps after a cycle. A failing hook is logged and undoes nothing of the cycle."""
    for act, _ in _after:
        try:
            act(pool)
        except (DatabaseError, InterfaceError):
            raise
        except Exception:
            log.exception("after_cycle_failed pool=%s", pool.name)
