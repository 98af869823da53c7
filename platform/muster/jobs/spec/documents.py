"""Reading a document that a stranger sent: JSON or YAML, plain data only."""

from __future__ import annotations

import json
import math
from typing import NoReturn

from muster.common.errors import FieldError, MusterError
from scheduler.documents import MAX_DEPTH, DocumentError, load_yaml


class Unreadable(MusterError, code="unreadable", title="The document cannot be read"):
    """The document cannot be parsed, or is not plain data."""


def read_json(body: bytes) -> object:
    """The value of a JSON document; refuses NaN, repeated keys and deep nesting."""
    try:
        value: object = json.loads(body, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise Unreadable(f"the document nests deeper than {MAX_DEPTH} levels") from error
    except UnicodeDecodeError as error:
        raise Unreadable("the document is not UTF-8") from error
    except json.JSONDecodeError as error:
        raise Unreadable(f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from error
    except ValueError as error:  # an integer of more digits than Python converts
        raise Unreadable(f"not JSON: {error}") from error
    _require_plain(value)
    return value


def read_yaml(body: bytes) -> object:
    """The value of one YAML document; refuses aliases, tags, repeated keys and deep nesting."""
    try:
        value = load_yaml(body.decode())
    except UnicodeDecodeError as error:
        raise Unreadable("the document is not UTF-8") from error
    except DocumentError as error:
        raise Unreadable(str(error)) from error
    _require_plain(value)
    return value


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result: dict[str, object] = {}
    for key, value in pairs:
        if key in result:
            raise Unreadable(f"the key {key[:100]!r} appears twice")
        result[key] = value
    return result


def _refuse_constant(name: str) -> NoReturn:
    raise Unreadable(f"{name} is not a JSON value")


def _require_plain(value: object, path: tuple[str, ...] = ()) -> None:
    """Refuse what Postgres cannot store or people cannot tell apart: NUL, halves of surrogate pairs, infinities."""
    if len(path) > MAX_DEPTH:
        raise Unreadable(f"the document nests deeper than {MAX_DEPTH} levels")
    if isinstance(value, str):
        _require_text(value, path)
    elif isinstance(value, float) and not math.isfinite(value):
        raise _unusable(path, "the number is too large, or not a number")
    elif isinstance(value, dict):
        for key, item in value.items():
            _require_text(key, path)
            _require_plain(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _require_plain(item, (*path, str(index)))


def _require_text(text: str, path: tuple[str, ...]) -> None:
    if "\0" in text:
        raise _unusable(path, "the text contains a NUL character")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise _unusable(path, "the text contains half a surrogate pair")


def _unusable(path: tuple[str, ...], message: str) -> Unreadable:
    field = ".".join(path)[:200]
    return Unreadable(f"{field}: {message}" if field else message, errors=(FieldError(field, message),))
