"""Advice from a loss curve: the loss is not a number, it rises, or it has stopped falling.

False alarms cost trust, so each kind requires evidence that noise does not produce, even correlated noise
(`scheduler.diagnosis.training.trends`). docs/design/measurements/jobs.md has rates of false alarms and detection.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from scheduler.diagnosis.training.trends import spread_of_means, trend_of

LOSSES = ("loss", "train_loss", "train/loss", "training_loss", "train.loss", "Loss")
"""The names of a loss; the first one present counts."""
NAN_POINTS = 3
"""This many values in a row that are not numbers: mixed precision skips one or two by itself."""
WITHIN, WITHIN_NOISE = 0.001, 0.003
"""Philly's question: from which step on was the loss within 0.1 % of the lowest? Where noise hides that, within 0.3 %.
"""
MIN_POINTS = 48
MIN_POINTS_FOR_RISE = 96
"""With fewer points, large and slow noise cannot be told from a rise."""
_BLOCKS = 8
_WINDOW_BLOCKS = 64
"""Blocks of a possible plateau: enough for a trend, and few enough to compare all pairs."""
_RISE_SIGMA, _PLATEAU_SIGMA = 7.0, 2.576
"""Standard errors: for a rise, and for the improvement that noise may hide (0.5 % at either side)."""
_MIN_RISE = 0.2
_MIN_SHARE_DONE = 1 / 3
"""The share of a training with a known end that must be done before a plateau is reported."""

Points = Sequence[tuple[float, float]]


class Kind(StrEnum):
    """The kind of advice; each is given once a job."""

    NAN = "nan"
    RISING = "rising"
    PLATEAU = "plateau"


@dataclass(frozen=True, slots=True)
class Advice:
    """Advice about a curve, with the step from which on it applies."""

    kind: Kind
    text: str
    step: float


def advise(points: Points, *, odd_run: int = 0, total: float | None = None) -> list[Advice]:
    """The advice for a loss curve; `odd_run` counts non-finite values at its end, `total` is the last step."""
    if odd_run >= NAN_POINTS:
        step = points[-1][0] if points else 0.0
        text = f"the last {odd_run} losses are not finite; step {step:g} is the newest"
        return [Advice(Kind.NAN, text, step)]
    finite = [point for point in points if math.isfinite(point[1])]
    if len(finite) < MIN_POINTS:
        return []
    found = _rising(finite) or _plateau(finite, total)
    return [found] if found else []


def _rising(points: Points) -> Advice | None:
    """Report a rise: the last eighth lies above the lowest stretch by half of the earlier gain, beyond noise.

    The lowest quarter of the last eighth must lie above it too: a restart of the learning rate comes down again, and a
    spike is short.
    """
    if len(points) < MIN_POINTS_FOR_RISE:
        return None
    blocks = _blocks([value for _, value in points], 2 * _BLOCKS)
    means = [_mean(block) for block in blocks]
    lowest = min(range(len(means) - 2), key=means.__getitem__)
    won = means[0] - means[lowest]
    last = [*blocks[-2], *blocks[-1]]
    if lowest == 0 or won <= 0:
        # The loss never fell, so only noise sets the threshold for a rise.
        won = 0.0
    spread = spread_of_means([value for _, value in points], max(1, len(points) // (2 * _BLOCKS)))
    least = means[lowest] + max(won / 2, _MIN_RISE * abs(means[lowest]), _RISE_SIGMA * spread)
    quiet = sorted(last)[: max(1, len(last) // 4)]
    if min(means[-1], means[-2]) <= least or _mean(quiet) <= means[lowest] + won / 4:
        return None
    if not _still_high(means, lowest, least):
        return None
    step = points[sum(len(block) for block in blocks[: lowest + 1]) - 1][0]
    text = f"the loss rises: {means[-1]:.4g} now, after {means[lowest]:.4g} around step {step:g}"
    return Advice(Kind.RISING, text, step)


def _still_high(means: list[float], lowest: int, least: float) -> bool:
    """True if the loss has stayed above the threshold since it first rose above it, and for a while."""
    first = next(place for place in range(lowest + 1, len(means)) if means[place] > least)
    return len(means) - first >= 3 and all(mean > least for mean in means[first:])


def _plateau(points: Points, total: float | None) -> Advice | None:
    """Report a plateau: in the second half of its steps the loss moved by less than 0.1 %, and noise could not hide
    more.

    The whole confidence interval of the trend must lie within that, which tests for equivalence (Schuirmann, "A
    Comparison of the Two One-Sided Tests Procedure and the Power Approach", J. Pharmacokinetics and Biopharmaceutics
    15, 1987). Where noise makes that impossible, the interval may reach to 0.3 %; the most likely value must lie within
    0.1 %.
    """
    steps, values = [point[0] for point in points], [point[1] for point in points]
    now = steps[-1]
    if total is not None and now < total * _MIN_SHARE_DONE:
        return None
    half = next((place for place, step in enumerate(steps) if step > now / 2), 0)
    later = values[half:]
    if half < MIN_POINTS // 4 or len(later) < MIN_POINTS // 2:
        return None
    level = _mean(later)
    if level <= 0:
        return None
    means = [_mean(block) for block in _blocks(later, _WINDOW_BLOCKS)]
    trend = trend_of(means, sure=_PLATEAU_SIGMA)
    likely, most = (len(means) / level * abs(slope) for slope in (trend.slope, max(trend.least, trend.most, key=abs)))
    noisy = len(means) / level * (trend.most - trend.least) > WITHIN
    if most <= WITHIN:
        within = WITHIN
    elif noisy and likely <= WITHIN and most <= WITHIN_NOISE:
        within = WITHIN_NOISE
    else:
        return None
    lowest = min(_mean(block) for block in _blocks(later, _BLOCKS))
    since = _since(steps, values, lowest, within)
    of = f" of {total:g}" if total is not None else ""
    text = f"within {within * 100:g} % of the lowest loss ({lowest:.4g}) since step {since:g}{of}"
    return Advice(Kind.PLATEAU, text, since)


def _since(steps: list[float], values: list[float], lowest: float, within: float) -> float:
    """The first step at which the mean of a short stretch lies within this share of the lowest."""
    blocks = _blocks(values, max(_BLOCKS, len(values) // 16))
    place = 0
    for block in blocks:
        if _mean(block) <= lowest * (1 + within):
            return steps[place]
        place += len(block)
    return steps[-1]


def _blocks(values: list[float], count: int) -> list[list[float]]:
    count = min(count, len(values))
    borders = [len(values) * place // count for place in range(count + 1)]
    return [values[begin:end] for begin, end in pairwise(borders)]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
