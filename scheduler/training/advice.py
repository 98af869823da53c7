"""What a curve of losses tells its owner: it is no number any more, it rises, or nothing has been won for long.

False alarms cost trust, so each kind asks for evidence that noise does not give: means of blocks are compared, whose
spread says what they are worth. docs/training.md has the rates of false alarms and of those that are found.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from statistics import median

LOSSES = ("loss", "train_loss", "train/loss", "training_loss", "train.loss", "Loss")
"""The names under which a loss is known, the first that there is counts."""
ODD_POINTS = 3
"""So many values in a row that are no numbers: mixed precision passes over one or two by itself."""
WITHIN = 0.001
"""Philly's question: from when on the loss was within 0.1 % of the lowest."""
LEAST_POINTS = 48
_BLOCKS = 8
_SURE, _SURE_OF_NOTHING = 7.0, 3.0
"""So many standard errors: of a rise, and of what may have been won unseen."""
_LEAST_RISE = 0.2
_LEAST_SHARE = 1 / 3
"""Of a training whose end is known so much must be done before a plateau is told."""

Points = Sequence[tuple[float, float]]


class Kind(StrEnum):
    """What is told; each once a job."""

    NAN = "nan"
    RISING = "rising"
    PLATEAU = "plateau"


@dataclass(frozen=True, slots=True)
class Advice:
    """What is told of a curve, with the step from which on it is so."""

    kind: Kind
    text: str
    step: float


def advise(points: Points, *, odd_run: int = 0, total: float | None = None) -> list[Advice]:
    """What the curve of a loss says; `odd_run` are the values at its end that are no numbers, `total` the last step."""
    if odd_run >= ODD_POINTS:
        step = points[-1][0] if points else 0.0
        text = f"the last {odd_run} losses are not finite; step {step:g} is the newest"
        return [Advice(Kind.NAN, text, step)]
    finite = [point for point in points if math.isfinite(point[1])]
    if len(finite) < LEAST_POINTS:
        return []
    found = _rising(finite) or _plateau(finite, total)
    return [found] if found else []


def _rising(points: Points) -> Advice | None:
    """The last eighth lies above the lowest stretch by half of what had been won, and surely so.

    Its own lowest quarter must lie above it too: a restart of the learning rate comes down again, and a spike is short.
    """
    blocks = _blocks([value for _, value in points], 2 * _BLOCKS)
    means = [_mean(block) for block in blocks]
    lowest = min(range(len(means) - 2), key=means.__getitem__)
    won = means[0] - means[lowest]
    last = [*blocks[-2], *blocks[-1]]
    if lowest == 0 or won <= 0:
        # It never went down: what it rises by is measured by the noise alone.
        won = 0.0
    least = means[lowest] + max(won / 2, _LEAST_RISE * abs(means[lowest]), _SURE * _spread(means))
    quiet = sorted(last)[: max(1, len(last) // 4)]
    if min(means[-1], means[-2]) <= least or _mean(quiet) <= means[lowest] + won / 4:
        return None
    if not _still_high(means, lowest, least):
        return None
    step = points[sum(len(block) for block in blocks[: lowest + 1]) - 1][0]
    text = f"the loss rises: {means[-1]:.4g} now, after {means[lowest]:.4g} around step {step:g}"
    return Advice(Kind.RISING, text, step)


def _still_high(means: list[float], lowest: int, least: float) -> bool:
    """Whether it did not come down any more since it first was so high, and was so for a while."""
    first = next(place for place in range(lowest + 1, len(means)) if means[place] > least)
    return len(means) - first >= 3 and all(mean > least for mean in means[first:])


def _spread(means: list[float]) -> float:
    """How far means of blocks lie apart by chance: by how far each is from the middle of its neighbours."""
    inner = range(1, len(means) - 1)
    bends = [abs(means[place - 1] - 2 * means[place] + means[place + 1]) for place in inner]
    return 1.4826 * median(bends) / math.sqrt(6)


def _plateau(points: Points, total: float | None) -> Advice | None:
    """In the second half of its steps the loss won less than 0.1 %, and noise could not hide that it won more."""
    steps, values = [point[0] for point in points], [point[1] for point in points]
    now = steps[-1]
    if total is not None and now < total * _LEAST_SHARE:
        return None
    half = next((place for place, step in enumerate(steps) if step > now / 2), 0)
    later = values[half:]
    if half < LEAST_POINTS // 4 or len(later) < LEAST_POINTS // 2:
        return None
    first, second = later[: len(later) // 2], later[len(later) // 2 :]
    level = _mean(second)
    if level <= 0:
        return None
    won, error = _mean(first) - level, math.hypot(_error(first), _error(second))
    # What is won between the halves of a stretch is half of what a straight line wins over it.
    if 2 * abs(won) + _SURE_OF_NOTHING * error > WITHIN * level:
        return None
    lowest = min(_mean(block) for block in _blocks(values, max(_BLOCKS, len(values) // 16)))
    since = _since(steps, values, lowest)
    of = f" of {total:g}" if total is not None else ""
    return Advice(Kind.PLATEAU, f"within 0.1 % of the lowest loss ({lowest:.4g}) since step {since:g}{of}", since)


def _since(steps: list[float], values: list[float], lowest: float) -> float:
    """The step from which on means of short stretches lie within 0.1 % of the lowest."""
    blocks = _blocks(values, max(_BLOCKS, len(values) // 16))
    place = 0
    for block in blocks:
        if _mean(block) <= lowest * (1 + WITHIN):
            return steps[place]
        place += len(block)
    return steps[-1]


def _error(values: list[float]) -> float:
    """The standard error of the mean, by blocks: what follows each other is alike, so single values would tell less."""
    means = [_mean(block) for block in _blocks(values, _BLOCKS)]
    return _deviation(means) / math.sqrt(len(means))


def _blocks(values: list[float], count: int) -> list[list[float]]:
    count = min(count, len(values))
    borders = [len(values) * place // count for place in range(count + 1)]
    return [values[begin:end] for begin, end in pairwise(borders)]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _deviation(values: Sequence[float]) -> float:
    mean = _mean(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / max(1, len(values) - 1))
