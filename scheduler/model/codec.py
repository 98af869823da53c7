"""Converts records to plain JSON values and back by the annotations of their dataclasses.

The platform stores a snapshot of up to ten thousand jobs after each cycle that changes something. So the codec reads
the annotations once per class and caches closures. Decoding is strict: a stored record that does not match its class
raises an error that names the field.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")

Convert = Callable[[Any], Any]

# The former names of fields, by class: cycles and configurations stored under them are still read.
FORMER_NAMES: Mapping[str, Mapping[str, str]] = {
    "CycleConfig": {"guard": "admission", "guard_params": "admission_params"},
    "Job": {"klass": "job_class", "memo": "policy_state"},
    "Note": {"memo": "policy_state"},
    "Node": {
        "why_not": "unschedulable_reason",
        "forms": "runtimes",
        "closes_at": "maintenance_starts_at",
        "opens_at": "maintenance_ends_at",
        "closing": "maintenance_reason",
        "clears": "drains",
    },
}


class CodecError(ValueError):
    """JSON that does not match the record; the message names the field."""


# Fields that former records lack, by class: they take their defaults.
ADDED_FIELDS: Mapping[str, frozenset[str]] = {
    "AllocationView": frozenset({"cells"}),
    "Job": frozenset({"expected_rate", "fixed_until", "group_id", "rates"}),
    "KnownRate": frozenset({"slowdown"}),
    "Plan": frozenset({"pool_state", "wake_at"}),
    "Snapshot": frozenset({"caps", "cell_versions", "groups", "organisations", "pool_state"}),
    "Tenant": frozenset({"organisation_id", "quotas", "borrowing", "lending"}),
    "VirtualCluster": frozenset({"weight", "borrowing", "cells", "lending", "past_gpu_s", "pinned"}),
}


def to_json(record: object) -> dict[str, Any]:
    """The record as dicts, lists, strings, numbers, booleans and None; fields keep their declared order."""
    kind: Any = type(record)
    return cast("dict[str, Any]", _encoder(kind)(record))


def from_json(kind: type[T], data: object) -> T:
    """The record of class `kind` in `data`, the output of `to_json`.

    Raises:
        CodecError: `data` does not match the class.
    """
    hint: Any = kind
    return cast(T, _decoder(hint)(data))


@cache
def _encoder(hint: Any) -> Convert:
    if isinstance(hint, type) and is_dataclass(hint):
        hints = get_type_hints(hint)
        # Most fields are JSON values already: copy them without a call.
        steps = [(f.name, None if _is_plain(hints[f.name]) else _encoder(hints[f.name])) for f in fields(hint)]
        return lambda record: {
            name: getattr(record, name) if step is None else step(getattr(record, name)) for name, step in steps
        }
    origin, args = get_origin(hint), get_args(hint)
    if origin is tuple:
        if _is_plain(args[0]):
            return list
        item = _encoder(args[0])
        return lambda items: [item(value) for value in items]
    if origin is Mapping:
        return lambda mapping: dict(sorted(mapping.items()))
    if origin in (Union, types.UnionType):
        (some,) = (_encoder(arg) for arg in args if arg is not types.NoneType)
        return lambda value: None if value is None else some(value)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return lambda member: member.value
    raise TypeError(f"no JSON form for the annotation {hint!r}")


@cache
def _decoder(hint: Any) -> Convert:
    if isinstance(hint, type) and is_dataclass(hint):
        return _record_decoder(hint)
    origin, args = get_origin(hint), get_args(hint)
    if origin is tuple:
        if args[-1] is not Ellipsis:
            return _fixed_decoder(tuple(map(_decoder, args)))
        item = _decoder(args[0])
        return lambda data: tuple(item(value) for value in _expect(list, data))
    if origin is Mapping:
        value_of = _decoder(args[1])
        return lambda data: {key: value_of(value) for key, value in _expect(dict, data).items()}
    if origin in (Union, types.UnionType):
        if _is_plain(hint):
            return lambda data: _expect(args, data)
        (some,) = (_decoder(arg) for arg in args if arg is not types.NoneType)
        return lambda data: None if data is None else some(data)
    if hint is float:
        return lambda data: float(_expect((int, float), data))
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return hint
    return lambda data: _expect(hint, data)


def _record_decoder(kind: type) -> Convert:
    hints = get_type_hints(kind)
    steps = {f.name: _decoder(hints[f.name]) for f in fields(kind)}
    former = FORMER_NAMES.get(kind.__name__, {})
    added = ADDED_FIELDS.get(kind.__name__, frozenset())

    def decode(data: Any) -> Any:
        values = _expect(dict, data)
        if not former.keys().isdisjoint(values):
            values = {former.get(name, name): value for name, value in values.items()}
        odd = values.keys() ^ steps.keys()
        if odd and not (odd <= added and odd.isdisjoint(values)):
            odd = ", ".join(sorted(odd))
            raise CodecError(f"{kind.__name__}: missing or unknown field: {odd}")
        decoded = {}
        for name, step in steps.items():
            if name in odd:
                continue
            try:
                decoded[name] = step(values[name])
            except ValueError as error:
                raise CodecError(f"{kind.__name__}.{name}: {error}") from error
        return kind(**decoded)

    return decode


def _fixed_decoder(steps: tuple[Convert, ...]) -> Convert:
    """Decodes a tuple of fixed length, each item by its own step."""

    def decode(data: Any) -> Any:
        if len(_expect(list, data)) != len(steps):
            raise CodecError(f"{data!r} does not have {len(steps)} items")
        return tuple(step(value) for step, value in zip(steps, data, strict=True))

    return decode


def _is_plain(hint: Any) -> bool:
    """Whether values of this annotation are JSON values already."""
    if get_origin(hint) in (Union, types.UnionType):
        return all(_is_plain(arg) for arg in get_args(hint))
    return hint in (int, float, str, bool, object, types.NoneType)


def _expect(kind: Any, data: Any) -> Any:
    # bool is a subclass of int in Python, but `true` is not a number in JSON.
    if not isinstance(data, kind) or (isinstance(data, bool) and kind in (int, (int, float))):
        raise CodecError(f"{data!r} has the wrong type")
    return data
