"""Read YAML as every part of Muster reads it: one document of plain data, by the rules of YAML 1.2's core schema.

`on`, `no`, `1:30` and a date are text here; PyYAML by itself follows YAML 1.1. Only its parser in C is used: aliases,
tags, repeated keys and deep nesting are refused event by event, before anything is built of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import yaml

MAX_DEPTH = 32
_MAX_NUMBER_CHARS = 30

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_INT = re.compile(r"[-+]?[0-9]+")
FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_WORDS = {
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
}  # fmt: skip


class DocumentError(ValueError):
    """The text is not YAML or not plain data."""

    def __init__(self, problem: str, mark: Any = None) -> None:
        self.problem = problem
        self.where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        super().__init__(f"{problem} at {self.where}" if mark else problem)


def load_yaml(text: str, *, only_text: bool = False) -> object:
    """The value of the document; None if there is none.

    Keys are text as written: `1: x` and `"1": x` have the same key, as in JSON. With `only_text` all scalars are too.

    Raises:
        DocumentError: names the line and the column.
    """
    # The stubs of PyYAML leave the attributes of events untyped.
    events: Iterator[Any] = yaml.parse(text, Loader=_Loader)
    try:
        next(events)  # the start of the stream
        if isinstance(next(events), yaml.StreamEndEvent):
            return None
        value = _value(next(events), events, only_text)
        next(events)  # the end of the document
        after = next(events)
    except yaml.MarkedYAMLError as error:
        problem = ", ".join(part for part in (error.context, error.problem) if part)
        raise DocumentError(f"not YAML: {problem}", error.problem_mark) from None
    except (yaml.YAMLError, UnicodeEncodeError) as error:  # control characters, or bytes of no encoding from a shell
        raise DocumentError(f"not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(after, yaml.StreamEndEvent):
        raise DocumentError("expected a single document", after.start_mark)
    return value


def _value(event: Any, events: Iterator[Any], only_text: bool, depth: int = 1) -> object:
    _require_plain(event)
    if isinstance(event, yaml.ScalarEvent):
        return event.value if only_text or not event.implicit[0] else _scalar(event)
    if depth > MAX_DEPTH:
        raise DocumentError(f"nested more than {MAX_DEPTH} deep", event.start_mark)
    if isinstance(event, yaml.SequenceStartEvent):
        items = []
        while not isinstance(item := next(events), yaml.SequenceEndEvent):
            items.append(_value(item, events, only_text, depth + 1))
        return items
    members: dict[str, object] = {}
    while not isinstance(key := next(events), yaml.MappingEndEvent):
        _require_plain(key)
        if not isinstance(key, yaml.ScalarEvent):
            raise DocumentError("a key has to be text", key.start_mark)
        if key.value in members:
            raise DocumentError(f"the key {key.value[:100]!r} is there twice", key.start_mark)
        members[key.value] = _value(next(events), events, only_text, depth + 1)
    return members


def _require_plain(event: Any) -> None:
    if event.anchor is not None:
        raise DocumentError("anchors and aliases (& and *) are not allowed", event.start_mark)
    if event.tag is not None:
        raise DocumentError(f"tags (!) are not allowed, here {event.tag[:100]}", event.start_mark)


def _scalar(event: Any) -> object:
    """The value of a scalar without quotes."""
    text: str = event.value
    if text in _WORDS:
        return _WORDS[text]
    if not FLOAT.fullmatch(text):
        return text
    number: int | float = math.inf
    if not _INT.fullmatch(text):
        number = float(text)
    elif len(text) <= _MAX_NUMBER_CHARS:
        number = int(text)
    if math.isinf(number):
        raise DocumentError(f"{text[:100]} is too large a number", event.start_mark)
    return number
