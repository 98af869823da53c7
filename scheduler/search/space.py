"""The parameters of a sweep, and the values that its members get.

A grid has each combination once. The other methods draw: member k gets the same values whatever the number of members,
so a sweep that is extended keeps its first members. Where all parameters are finite, members are drawn without
repetition until each combination was drawn once.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

MAX_MEMBERS = 1000
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
FORMS = "a list of values, {log: [a, b]}, {uniform: [a, b]} or {int: [a, b]}"

Value: TypeAlias = bool | int | float | str


class SearchError(ValueError):
    """A part of the spec of a sweep that cannot be: the field, and what is wrong with it."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of the listed values."""

    values: tuple[Value, ...]

    @property
    def size(self) -> int:
        """The number of values."""
        return len(self.values)

    def at(self, index: int) -> Value:
        """The value at an index from 0."""
        return self.values[index]


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer from `low` to `high`, both included."""

    low: int
    high: int

    @property
    def size(self) -> int:
        """The number of values."""
        return self.high - self.low + 1

    def at(self, index: int) -> Value:
        """The value at an index from 0."""
        return self.low + index


@dataclass(frozen=True, slots=True)
class Range:
    """A number from `low` to `high`, uniform or, with `log`, uniform in its logarithm."""

    low: float
    high: float
    log: bool = False

    def draw(self, random: Random) -> float:
        """A number of six significant digits."""
        if self.log:
            drawn = math.exp(random.uniform(math.log(self.low), math.log(self.high)))
        else:
            drawn = random.uniform(self.low, self.high)
        return min(max(float(f"{drawn:.6g}"), self.low), self.high)


Parameter: TypeAlias = OneOf | Integer | Range
Space: TypeAlias = Mapping[str, Parameter]
Point: TypeAlias = dict[str, Value]


def parse_space(params: object, field: str = "sweep.params") -> dict[str, Parameter]:
    """The parameters by name, in the order of the spec.

    Raises:
        SearchError: a name is none of an environment variable, or a parameter has none of the known forms.
    """
    if not isinstance(params, Mapping) or not params:
        raise SearchError(field, f"name at least one parameter, each with {FORMS}")
    for name in params:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise SearchError(
                f"{field}.{name}", "a name has letters, digits and _, and no digit first: members get it in their env"
            )
    return {name: _parameter(form, f"{field}.{name}") for name, form in params.items()}


def env_text(value: Value) -> str:
    """A value as the environment variable of a member has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def grid(space: Space, field: str = "sweep.params") -> list[Point]:
    """Each combination once, the last parameter fastest.

    Raises:
        SearchError: a parameter is not finite, or there are more than MAX_MEMBERS combinations.
    """
    for name, parameter in space.items():
        if isinstance(parameter, Range):
            raise SearchError(
                f"{field}.{name}",
                "a grid takes a list or {int: [a, b]}; for a range use the method random, halving or asha",
            )
    count = combinations(space) or 0
    if count > MAX_MEMBERS:
        raise SearchError(
            field,
            f"the grid has {count:,} combinations, and a sweep has at most {MAX_MEMBERS:,} members: list fewer values, "
            "or use the method random, halving or asha",
        )
    columns = [[parameter.at(index) for index in range(parameter.size)] for parameter in _finite(space)]
    return [dict(zip(space, row, strict=True)) for row in itertools.product(*columns)]


def draw(space: Space, count: int, seed: int) -> list[Point]:
    """The parameters of the members 1 to `count`."""
    if combinations(space) is None:
        return [
            {name: _draw(parameter, _random(f"{seed}:{number}:{name}")) for name, parameter in space.items()}
            for number in range(1, count + 1)
        ]
    return list(itertools.islice(_without_repetition(space, seed), count))


def combinations(space: Space) -> int | None:
    """The number of combinations; None if a parameter is a range."""
    finite = _finite(space)
    return math.prod(parameter.size for parameter in finite) if len(finite) == len(space) else None


def _finite(space: Space) -> list[OneOf | Integer]:
    return [parameter for parameter in space.values() if not isinstance(parameter, Range)]


def _random(seed: str) -> Random:
    return Random(seed)  # noqa: S311 - it draws parameters, not secrets


def _draw(parameter: Parameter, random: Random) -> Value:
    return parameter.draw(random) if isinstance(parameter, Range) else parameter.at(random.randrange(parameter.size))


def _without_repetition(space: Space, seed: int) -> Iterator[Point]:
    """Combinations in random order, by a shuffle that moves only what was drawn; after all of them, all again."""
    count, random = combinations(space) or 1, _random(f"{seed}")
    while True:
        moved: dict[int, int] = {}
        for at in range(count):
            drawn = random.randrange(at, count)
            index = moved.get(drawn, drawn)
            moved[drawn] = moved.get(at, at)
            point: Point = {}
            for name, parameter in zip(space, _finite(space), strict=True):
                index, digit = divmod(index, parameter.size)
                point[name] = parameter.at(digit)
            yield point


def _parameter(form: object, field: str) -> Parameter:
    if isinstance(form, list):
        return _one_of(form, field)
    if not isinstance(form, Mapping) or len(form) != 1:
        raise SearchError(field, f"give {FORMS}")
    ((kind, bounds),) = form.items()
    if kind not in {"log", "uniform", "int"}:
        raise SearchError(field, f"{kind!r} is no form of a parameter: give {FORMS}")
    if not isinstance(bounds, list) or len(bounds) != 2 or not all(_is_number(bound) for bound in bounds):
        raise SearchError(field, f"{kind} takes two numbers, [a, b]")
    low, high = bounds
    if low >= high:
        raise SearchError(field, f"{kind} takes [a, b] with a below b, not [{low}, {high}]")
    if kind == "int":
        if not isinstance(low, int) or not isinstance(high, int):
            raise SearchError(field, "int takes two integers")
        return Integer(low, high)
    if kind == "log" and low <= 0:
        raise SearchError(field, "log takes numbers above 0")
    return Range(float(low), float(high), log=kind == "log")


def _one_of(values: list[object], field: str) -> OneOf:
    if not values:
        raise SearchError(field, "the list of values is empty")
    kept: dict[str, Value] = {}
    for value in values:
        if not isinstance(value, bool | int | float | str) or env_text(value) in {"nan", "inf", "-inf"}:
            raise SearchError(field, f"{value!r} is no value: list numbers, texts, true and false")
        text = env_text(value)
        if "\0" in text:
            raise SearchError(field, "a text with a NUL cannot be in the environment of a job")
        if text in kept:
            raise SearchError(field, f"the list has {text} twice")
        kept[text] = value
    return OneOf(tuple(kept.values()))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
