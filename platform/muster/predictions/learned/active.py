"""The active model of run times in this process: read when it is first asked, and looked up again from time to time."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from muster.predictions.models import Kind
from scheduler.predict.history import History, RunTimeJob
from scheduler.predict.runtimes import RunTime, RunTimeModel, by_rules
from scheduler.predict.storage import ModelError

log = logging.getLogger(__name__)

LOOK_EVERY_S = 30.0


@dataclass(frozen=True, slots=True)
class _Seen:
    """The active model's row, read, and when this process last looked for it. The model is None if it is unusable."""

    row_id: int | None = None
    model: RunTimeModel | None = None
    looked_at: float = float("-inf")


_seen = _Seen()


def predicted(jobs: Sequence[RunTimeJob], history: History) -> Sequence[RunTime | None]:
    """The run times by the active model; without one, or if it fails, by rules."""
    model = active_model()
    if model is not None:
        try:
            return model.predict_many(jobs, history)
        except (ArithmeticError, LookupError, TypeError, ValueError):
            log.exception("model_failed kind=%s", Kind.RUN_TIME)
    return [by_rules(job, history) for job in jobs]


def active_model() -> RunTimeModel | None:
    """The active model; None without one, and for one that cannot be read, which is logged once."""
    global _seen  # noqa: PLW0603 - one for the process; a race of two threads reads the row twice
    seen, now = _seen, time.monotonic()
    if now < seen.looked_at + LOOK_EVERY_S:
        return seen.model
    found = _first("SELECT id FROM predictions_predictormodel WHERE kind = %s AND active", Kind.RUN_TIME.value)
    row_id = None if found is None else int(found[0])
    model = seen.model if row_id == seen.row_id else _read(row_id)
    _seen = _Seen(row_id, model, now)
    return model


def forget() -> None:
    """Look the active model up again when it is next asked."""
    global _seen  # noqa: PLW0603
    _seen = _Seen()


def _read(row_id: int | None) -> RunTimeModel | None:
    row = _first("SELECT data FROM predictions_predictormodel WHERE id = %s", row_id)
    if row is None:
        return None
    try:
        return RunTimeModel.from_bytes(bytes(row[0]))
    except ModelError as error:
        log.error("model_left_out id=%s error=%s", row_id, error)
        return None


def _first(sql: str, param: object) -> tuple[Any, ...] | None:
    """The first row. Not by a cursor of Django's: a process's look now and then is no part of what a request costs."""
    connection.ensure_connection()
    with connection.wrap_database_errors, connection.connection.cursor() as cursor:
        cursor.execute(sql, [param])
        row: tuple[Any, ...] | None = cursor.fetchone()
        return row
