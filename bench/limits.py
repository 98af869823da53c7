"""Upper and lower limits of the figures, from a file that people edit when a change is meant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from bench.figures import Figure

PATH = Path(__file__).resolve().parents[1] / "tests" / "perf" / "limits.yaml"


class BadLimits(ValueError):
    """The file of limits cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Excess:
    """A figure on the wrong side of its limit."""

    figure: Figure
    value: float
    limit: float

    def __str__(self) -> str:
        side = "below" if self.figure.higher_is_better else "above"
        return f"{self.figure.key}: {self.value:.4g} {self.figure.unit} is {side} the limit of {self.limit:g}"


def read_limits(text: str, figures: tuple[Figure, ...]) -> dict[str, float]:
    """The limit of each figure that has one; every key must be a figure's, so that none is ignored by a typo."""
    document = yaml.safe_load(text) or {}
    if not isinstance(document, dict):
        raise BadLimits("the limits must be a mapping of figures to numbers")
    known = {figure.key for figure in figures}
    for key, limit in document.items():
        if key not in known:
            raise BadLimits(f"there is no figure {key!r}; there are {', '.join(sorted(known))}")
        if isinstance(limit, bool) or not isinstance(limit, int | float) or limit <= 0:
            raise BadLimits(f"the limit of {key} must be a number above 0, not {limit!r}")
    return {key: float(limit) for key, limit in document.items()}


def unmeasured(figures: list[Figure], values: Mapping[str, float], limits: Mapping[str, float]) -> list[str]:
    """The figures that have a limit and were not measured, because something that they need is missing here."""
    return [figure.key for figure in figures if figure.key in limits and figure.key not in values]


def excesses(figures: list[Figure], values: Mapping[str, float], limits: Mapping[str, float]) -> list[Excess]:
    """The measured figures that are past their limits."""
    return [
        Excess(figure, values[figure.key], limits[figure.key])
        for figure in figures
        if figure.key in values and figure.key in limits and not figure.meets(values[figure.key], limits[figure.key])
    ]
