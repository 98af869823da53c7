"""Reading a document that a stranger sent: JSON or YAML, plain data only."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

import yaml

from muster.common.errors import FieldError, MusterError

MAX_DEPTH = 32

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Unreadable(MusterError):
    """The document cannot be parsed, or is not plain data."""

    code = "unreadable"
    title = "The document cannot be read"


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
    """The value of one YAML document; refuses aliases, tags, repeated keys and deep nesting.

    The events are looked at before anything is built, so that a document made to explode never does.
    """
    try:
        text = body.decode()
        _check_yaml_events(text)
        node = yaml.compose(text, Loader=_Loader)
        value = _build(node) if node is not None else None
    except UnicodeDecodeError as error:
        raise Unreadable("the document is not UTF-8") from error
    except yaml.YAMLError as error:
        raise Unreadable(f"not YAML: {_where(error)}") from error
    except ValueError as error:
        raise Unreadable(f"not YAML: {error}") from error
    _require_plain(value)
    return value


def _check_yaml_events(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise Unreadable(f"YAML anchors and aliases are not accepted (line {line})")
        tag = getattr(event, "tag", None)
        if tag not in {None, "!"}:
            raise Unreadable(f"YAML tags are not accepted: {tag!r} (line {line})")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise Unreadable(f"the document nests deeper than {MAX_DEPTH} levels (line {line})")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _build(node: yaml.Node) -> object:
    if isinstance(node, yaml.MappingNode):
        pairs: list[tuple[object, object]] = [(_build(key), _build(value)) for key, value in node.value]
        return _unique_keys(pairs)
    if isinstance(node, yaml.SequenceNode):
        return [_build(item) for item in node.value]
    if _is_text_in_yaml_1_2(node):
        return node.value
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_object(node)
    finally:
        loader.dispose()


def _is_text_in_yaml_1_2(node: yaml.Node) -> bool:
    """Whether a scalar is something else only by the rules of YAML 1.1: `on`, `no`, `1:30`, `2026-12-01`."""
    kind = node.tag.rpartition(":")[2]
    return (
        kind == "timestamp"
        or (kind == "bool" and node.value.lower() not in {"true", "false"})
        or (kind in {"int", "float"} and ":" in node.value)
    )


def _unique_keys(pairs: list[tuple[Any, object]]) -> dict[str, object]:
    result: dict[str, object] = {}
    for key, value in pairs:
        if not isinstance(key, str):
            raise Unreadable(f"keys must be text, and {key!r} is not")
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


def _where(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    return f"{problem} at line {mark.line + 1}, column {mark.column + 1}" if mark else str(problem)
