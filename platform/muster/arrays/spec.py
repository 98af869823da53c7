"""The spec of an array: a job spec with the key `array`, which says how many members there are and how they differ."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from muster.common.errors import FieldError, Invalid, unknown_key
from muster.jobs.spec.spec_errors import message_of
from muster.jobs.spec.spec_texts import checked_params

MAX_MEMBERS = 20_000
MAX_INDEX = 4_000_000
INDICES = "write indices such as 0-9, 1-9:2 or 1,3,5-7"
_EXAMPLE = "write indices such as 0-9, a list such as [{lr: 0.1}, {lr: 0.2}], or {indices: 0-9, max_parallel: 4}"
_PART = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?")
_RANGE = re.compile(r"[0-9]+-.*")

Member = tuple[int, dict[str, Any]]
"""The index of a member, and the parameters that it alone has."""


def _as_text(value: object) -> object:
    """YAML reads a single index as a number."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class ArraySpec(BaseModel):
    """The spec of an array: its members, their differences, and the number that runs at once."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    indices: Annotated[str, BeforeValidator(_as_text, json_schema_input_type=str | int)] | None = Field(
        default=None, description="One member for each index: 0-9, 1-9:2 (every second), 1,3,5-7; 0-9%4 as in Slurm."
    )
    params: list[dict[str, Any]] | dict[str, list[Any] | str] | None = Field(
        default=None,
        description=(
            "One member for each mapping of a list, [{lr: 0.1}, {lr: 0.2}], or for each combination of values, {lr: "
            "[0.1, 0.2], seed: 0-4}."
        ),
    )
    max_parallel: int | None = Field(
        default=None, ge=1, le=MAX_MEMBERS, description="Members that run at once, at most. Default: all."
    )

    def stored(self) -> dict[str, Any]:
        """As it is stored and shown."""
        return self.model_dump(mode="json", exclude_none=True)


@dataclass(frozen=True, slots=True)
class Array:
    """An array as it is submitted: its members by rising index."""

    spec: ArraySpec
    members: list[Member]
    step: int

    @property
    def parallel(self) -> int:
        """Members that may be active at once."""
        return min(self.spec.max_parallel or len(self.members), len(self.members))


def parse_array(data: object) -> Array:
    """The part of the spec under `array`, and the members that it makes; `Invalid` names each wrong field."""
    spec = _parsed(data)
    if (spec.indices is None) == (spec.params is None):
        raise Invalid.field("array", f"{'name one of indices and params' if spec.indices else _EXAMPLE}")
    if spec.indices is not None:
        found, step = parse_indices(spec.indices, "array.indices" if isinstance(data, dict) else "array")
        return Array(spec, [(index, {}) for index in found], step)
    params = _listed(spec.params) if isinstance(spec.params, list) else _combined(spec.params or {})
    return Array(spec, list(enumerate(params)), 1)


def parse_indices(text: str, field: str) -> tuple[list[int], int]:
    """The indices that the text names, each once and rising, and the step of a single range."""
    parts = [_PART.fullmatch(part.strip()) for part in text.split(",")]
    found: set[int] = set()
    for part, match in zip(text.split(","), parts, strict=True):
        if match is None:
            raise Invalid.field(field, f"{part.strip()[:60]!r} is no index and no range: {INDICES}")
        first, last = int(match[1]), int(match[2] or match[1])
        step = int(match[3] or 1)
        if step == 0:
            raise Invalid.field(field, f"{part.strip()} has the step 0: write 1 or more")
        if first > last:
            raise Invalid.field(field, f"{part.strip()} goes down: write the smaller index first")
        if last > MAX_INDEX:
            raise Invalid.field(field, f"{last} is above the highest index, {MAX_INDEX}")
        _require_count(len(range(first, last + 1, step)), field)
        found.update(range(first, last + 1, step))
        _require_count(len(found), field)
    return sorted(found), int(parts[0][3] or 1) if len(parts) == 1 and parts[0] else 1


def array_schema() -> dict[str, Any]:
    """The JSON Schema of what stands under `array`: its short forms, and the long one last."""
    long = ArraySpec.model_json_schema(mode="validation")
    short = [{"type": "string"}, {"type": "integer"}, {"type": "array", "items": {"type": "object"}}]
    return {"description": str(ArraySpec.__doc__), "anyOf": [*short, long]}


def _parsed(data: object) -> ArraySpec:
    """The spec in its long form, also of the short ones: indices, with a limit as Slurm spells it, or a list."""
    data = _as_text(data)
    if isinstance(data, str):
        data = {"indices": data}
    elif isinstance(data, list):
        data = {"params": data}
    if not isinstance(data, dict):
        raise Invalid.field("array", _EXAMPLE)
    indices, percent, limit = str(data.get("indices", "")).partition("%")
    if percent:
        if "max_parallel" in data:
            raise Invalid.field("array.max_parallel", "indices have a limit after % too: leave one of them out")
        if not (limit.isascii() and limit.isdigit() and len(limit) < 10):
            raise Invalid.field("array", f"{limit[:60]!r} is no limit: write a number after %, such as 0-9%4")
        data = data | {"indices": indices, "max_parallel": int(limit)}
    try:
        return ArraySpec.model_validate(data)
    except ValidationError as error:
        errors = {one.field: one for one in map(_field_error, error.errors(include_url=False)[:50])}
        raise Invalid.fields(tuple(errors.values())) from error


def _field_error(detail: Any) -> FieldError:
    path = [str(part) for part in detail["loc"]]
    if detail["type"] == "extra_forbidden":
        return FieldError(f"array.{path[-1]}", unknown_key(path[-1], list(ArraySpec.model_fields)))
    if path[0] == "params":
        return FieldError("array.params", "write a list such as [{lr: 0.1}], or values by name, {lr: [0.1], seed: 0-4}")
    return FieldError(".".join(["array", *path]), message_of(detail, path))


def _listed(params: list[dict[str, Any]]) -> list[dict[str, Any]]:
    _require_count(len(params), "array.params")
    for index, one in enumerate(params):
        if one.keys() != params[0].keys():
            unlike = ", ".join(sorted(map(str, one.keys() ^ params[0].keys())))
            problem = f"each member has the same parameters, and this one differs from the first in {unlike}"
            raise Invalid.field(f"array.params.{index}", problem[:500])
        _require_usable(one, f"array.params.{index}")
    return params


def _combined(params: dict[str, list[Any] | str]) -> list[dict[str, Any]]:
    """Each combination of the values, in order: those of the last parameter change first."""
    values = {name: _values(name, given) for name, given in params.items()}
    _require_count(math.prod(map(len, values.values())) if values else 0, "array.params")
    return [dict(zip(values, one, strict=True)) for one in itertools.product(*values.values())]


def _values(name: str, given: list[Any] | str) -> list[Any]:
    field = f"array.params.{name}"
    if isinstance(given, str):
        if not _RANGE.fullmatch(given):
            raise Invalid.field(field, "write a list of values, or a range of whole numbers such as 0-4 or 0-100:10")
        return list(parse_indices(given, field)[0])
    if not given:
        raise Invalid.field(field, "it has no value, so there would be no member")
    for value in given:
        _require_usable({name: value}, field)
    return given


def _require_usable(params: dict[str, Any], field: str) -> None:
    try:
        checked_params(params)
    except ValueError as error:
        raise Invalid.field(field, str(error)) from error


def _require_count(members: int, field: str) -> None:
    if not members:
        raise Invalid.field(field, f"it makes no member: {_EXAMPLE}")
    if members > MAX_MEMBERS:
        raise Invalid.field(field, f"it makes {members:,} members; an array has at most {MAX_MEMBERS:,}")


def names_of(members: Iterable[Member]) -> list[str]:
    """The names of the parameters that members have of their own."""
    return list(next((own for _, own in members), {}))
