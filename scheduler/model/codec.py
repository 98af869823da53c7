"""Converts records to plain JSON values and back by the annotations of their dataclasses.

The platform stores a snapshot of up to ten thousand jobs after each cycle that changes something. So the codec reads
the annotations once per class and caches closures. Decoding is strict: a stored record that does not match its class
raises an error that names the field. A field that has a default may be missing, as in records stored before it was
added.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")

Convert = Callable[[Any], Any]


class CodecError(ValueError):
    """JSON that does not match the record; the message names the field."""


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
    optional = {f.name for f in fields(kind) if f.default is not MISSING or f.default_factory is not MISSING}

    def decode(data: Any) -> Any:
        values = _expect(dict, data)
        odd = (values.keys() ^ steps.keys()) - (optional - values.keys())
        if odd:
            raise CodecError(f"{kind.__name__}: missing or unknown field: {', '.join(sorted(odd))}")
        decoded = {}
        for name, value in values.items():
            try:
                decoded[name] = steps[name](value)
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
    """True if values of this annotation are JSON values already."""
    if get_origin(hint) in (Union, types.UnionType):
        return all(_is_plain(arg) for arg in get_args(hint))
    return hint in (int, float, str, bool, object, types.NoneType)


def _expect(kind: Any, data: Any) -> Any:
    # bool is a subclass of int in Python, but `true` is not a number in JSON.
    if not isinstance(data, kind) or (isinstance(data, bool) and kind in (int, (int, float))):
        raise CodecError(f"{data!r} has the wrong type")
    return data
