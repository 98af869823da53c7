"""Errors of pydantic about a spec, in words that say what to write instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic_core import ErrorDetails

_MAPPINGS = {
    "batch": "{output: run-%j.out}",
    "checkpoint": "{signal: USR1, grace: 2m}",
    "code": "{upload: SHA-256 of the archive}",
    "env": "{LR: 0.1}",
    "gpus": "{any_of: [A100:4, V100:8]}",
    "idle": "{below: 5, for: 30m, action: stop}",
    "locality": "{within: node}",
    "notify": "{mail: [failed], webhook: []}",
    "params": "{lr: 0.1}",
    "retry": "{max: 3, on: [failed]}",
    "tags": "{project: seg}",
    "throughput": "{A100: 410, V100: 190}",
}
_PATTERNS = {
    "code.upload": "write the SHA-256 of an upload, 64 hex digits",
    "batch.signal": "write the name of a signal, such as USR1",
}


def _choices(context: Mapping[str, Any]) -> str:
    return f"write {str(context['expected']).replace(chr(39), '')}"


_BY_TYPE: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "missing": lambda _: "it is required",
    "bool_type": lambda _: "write true or false",
    "enum": _choices,
    "finite_number": lambda _: "write a finite number",
    "float_type": lambda _: "write a number",
    "greater_than": lambda context: f"write more than {context['gt']:g}",
    "greater_than_equal": lambda context: f"write {context['ge']:g} or more",
    "int_from_float": lambda _: "write a whole number, such as 4",
    "int_type": lambda _: "write a whole number, such as 4",
    "less_than": lambda context: f"write less than {context['lt']:g}",
    "less_than_equal": lambda context: f"write {context['le']:g} or less",
    "list_type": lambda _: "write a list, such as [a, b]",
    "literal_error": _choices,
    "string_too_long": lambda context: f"write at most {context['max_length']} characters",
    "string_too_short": lambda context: f"write at least {context['min_length']} characters",
    "string_type": lambda _: "write text, in quotes if it looks like a number",
    "too_long": lambda context: f"write at most {context['max_length']} entries",
    "too_short": lambda context: f"write {context['min_length']} or more entries",
}


def message_of(detail: ErrorDetails, path: Sequence[str]) -> str:
    """A message that says what to write in the field at `path` instead."""
    field, kind = ".".join(path), detail["type"]
    if kind in {"dict_type", "model_type", "model_attributes_type"}:
        return f"write a mapping, such as {_MAPPINGS.get(field, '{key: value}')}"
    if kind == "string_pattern_mismatch" and field in _PATTERNS:
        return _PATTERNS[field]
    if kind == "too_long" and isinstance(detail["input"], str):
        kind = "string_too_long"  # so pydantic calls it behind a validator of our own
    if kind in _BY_TYPE:
        return _BY_TYPE[kind](detail.get("ctx", {}))
    return detail["msg"].removeprefix("Value error, ")
