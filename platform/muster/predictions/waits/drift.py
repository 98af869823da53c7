"""The alarm that recent waits of a pool contradict its forecasts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from django.db import transaction

from muster.events.services import mail_operators, record
from muster.predictions.models import WaitCalibration, WaitOutcome, WaitRecord
from muster.predictions.waits.forecasts import read, shown
from scheduler.predict.waits.forecast import QUICK_S

JUDGED = 200
"""The latest waits that are judged."""
MIN_JUDGED = 50
ERRORS = 4.0
"""Standard errors that are tolerated: waits of one hour are alike, so that they err together."""
_COVERAGE = 0.9


@dataclass(frozen=True, slots=True)
class Drift:
    """The figures of the test; None where fewer than `MIN_JUDGED` waits can be judged."""

    jobs: int
    coverage: float | None = None
    quick: float | None = None
    expected: float | None = None

    @property
    def says(self) -> str:
        """The figures as a sentence."""
        if self.coverage is None or self.quick is None or self.expected is None:
            return f"{self.jobs} waits can be judged, and the test needs {MIN_JUDGED}"
        return (
            f"of the last {self.jobs} waits {self.coverage:.0%} stayed below their p90 (at least {self._least:.0%} is "
            f"in order), and {self.quick:.0%} were quick where {self.expected:.0%} were expected "
            f"(within {self._off:.0%})"
        )

    @property
    def alarm(self) -> bool:
        """True if the share of waits below their p90, or that of quick starts, is too far from what was foretold."""
        if self.coverage is None or self.quick is None or self.expected is None:
            return False
        return self.coverage < self._least or abs(self.quick - self.expected) > self._off

    @property
    def _least(self) -> float:
        return _COVERAGE - ERRORS * math.sqrt(_COVERAGE * (1 - _COVERAGE) / self.jobs)

    @property
    def _off(self) -> float:
        expected = self.expected or 0.0
        return ERRORS * math.sqrt(max(expected * (1 - expected), 1 / self.jobs) / self.jobs)


def drift_of(pool_id: int) -> Drift:
    """The test on the latest starts of the pool that had a forecast."""
    rows = WaitRecord.objects.filter(pool_id=pool_id, outcome=WaitOutcome.STARTED).exclude(forecasts={})
    found = rows.order_by("-over_at").values_list("forecasts", "eligible_at", "over_at")[:JUDGED]
    judged = [
        (forecast.quick, forecast.p90_s, max(0.0, (over_at - eligible_at).total_seconds()))
        for document, eligible_at, over_at in found
        if (forecast := shown(read(document))) is not None and over_at is not None and eligible_at is not None
    ]
    if len(judged) < MIN_JUDGED:
        return Drift(len(judged))
    quick, p90_s, waited_s = np.array(judged).T
    return Drift(
        len(judged), float((waited_s <= p90_s).mean()), float((waited_s <= QUICK_S).mean()), float(quick.mean())
    )


def watch_drift(calibration: WaitCalibration) -> None:
    """Notify operators when the alarm rises."""
    drift = drift_of(calibration.pool_id)
    if drift.alarm == calibration.alarm:
        return
    with transaction.atomic():
        WaitCalibration.objects.filter(pk=calibration.pk).update(alarm=drift.alarm)
        if not drift.alarm:
            return
        name = calibration.pool.name
        record("prediction.drift", actor="platform", data={"pool": name, "says": drift.says})
        mail_operators(
            subject=f"Forecasts of waits in pool {name} drift",
            body=f"In pool {name}, {drift.says}. The page Predictions has the weeks and the worst misses. A change of "
            "the policy, of quotas or of nodes may be the cause; the next training learns from it.",
        )
