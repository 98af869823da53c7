"""Predictions as JSON."""

from __future__ import annotations

from datetime import datetime

from muster.common.clock import moment
from muster.predictions.waits.outlook import Start
from muster_client.answers.forecast import When


def when_document(start: Start, now: datetime) -> When:
    """The document of a start."""
    until, since = start.started_at or now, start.eligible_at
    return {
        "wait": None,
        "wait_unknown": start.now.unknown,
        "submitted": None,
        "eligible_at": None if since is None else moment(since),
        "starts_p50_at": None,
        "starts_p90_at": None,
        "started_at": None if start.started_at is None else moment(start.started_at),
        "waited_s": None if since is None else round(max(0.0, (until - since).total_seconds()), 1),
    }
