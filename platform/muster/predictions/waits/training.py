"""Trains the models of waits, pool by pool, on the rows of waits alone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from django.db import connection, transaction

from muster.fleet.models import Pool
from muster.predictions.children import Limits, attempt, in_child
from muster.predictions.models import Kind, PredictorModel, WaitOutcome, WaitRecord
from muster.predictions.versions import store_model
from muster.predictions.waits.fitting import Fitted, Row, fit
from muster.predictions.waits.forecasts import active_model
from scheduler.predict.waits.features import VERSION

MIN_STARTS = 200
"""The starts of a pool from which its first model is trained."""
MIN_NEW = 100
"""The starts since the last training from which another one is worth it, and a twentieth of those before."""
MAX_ROWS = 100_000
"""The newest waits that a model is trained on."""
LIMITS = Limits(run_s=600.0, wait_s=60.0)

_ROWS = f"""
SELECT extract(epoch FROM eligible_at)::float8, greatest(0, extract(epoch FROM until - eligible_at))::float8, started,
    features
FROM (
    SELECT eligible_at, COALESCE(over_at, clock_timestamp()) AS until, outcome = 'started' AS started, features
    FROM predictions_waitrecord
    WHERE pool_id = %s AND version = %s AND eligible_at <= clock_timestamp()
    ORDER BY eligible_at DESC LIMIT {MAX_ROWS}
) newest
ORDER BY eligible_at
"""
_last: dict[int, int] = {}
"""The starts of a pool at the last training by this process, whether its model was replaced or not."""


def train_waits() -> int:
    """Train the models of pools with enough new starts, and return how many were replaced."""
    replaced = 0
    for pool in Pool.objects.order_by("pk"):
        starts = WaitRecord.objects.filter(pool=pool, outcome=WaitOutcome.STARTED, version=VERSION).count()
        active = active_model(pool.pk)
        before = _last.get(pool.pk, active.scores.get("starts", 0) if active is not None else 0)
        if starts < MIN_STARTS or starts - before < max(MIN_NEW, before // 20):
            continue
        if attempt(f"the training on waits of pool {pool.name}", partial(_train, pool, active, starts)):
            replaced += active_model(pool.pk) != active
            _last[pool.pk] = starts
    return replaced


def _train(pool: Pool, active: PredictorModel | None, starts: int) -> None:
    used = bytes(PredictorModel.objects.values_list("data", flat=True).get(pk=active.pk)) if active else None
    since = active.trained_at.timestamp() if active else 0.0
    found: Fitted | None = in_child(partial(fit, used=used, used_since=since), _rows(pool.pk), limits=LIMITS)
    if found is not None and found.data is not None:
        scores = found.scores | {"starts": starts}
        store_model(kind=Kind.WAIT, pool_id=pool.pk, rows=found.rows, scores=scores, data=found.data, active=True)


def _rows(pool_id: int) -> Iterator[Row]:
    """The newest waits of the pool, the oldest first, read as the child takes them."""
    with transaction.atomic(), connection.chunked_cursor() as cursor:
        cursor.execute(_ROWS, [pool_id, VERSION])
        while found := cursor.fetchmany(1000):
            yield from found
