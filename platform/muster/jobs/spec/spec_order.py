"""The order in which the keys of a spec are shown; Postgres stores them by their lengths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_origin

from pydantic import BaseModel

from muster.jobs.spec.spec import GROUP_KEYS, PARTS, JobSpec


def _keys_of(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _with_groups(keys: list[str]) -> list[str]:
    place = keys.index("params") + 1
    return [*keys[:place], *GROUP_KEYS, *keys[place:]]


KEYS = tuple(_with_groups(_keys_of(JobSpec)))
"""The keys of a job and of a group: name, command and GPUs first."""
_INNER = {name: _keys_of(model) for name, model in PARTS.items()}
_BY_NAME = frozenset(name for name, field in JobSpec.model_fields.items() if get_origin(field.annotation) is dict)


def in_order(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The stored spec with its keys, and those of its mappings, in their order; names of the user's by the alphabet."""
    return {key: _inner(key, stored[key]) for key in _sorted(stored, KEYS)}


def _inner(key: str, value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if key in _BY_NAME:
        return dict(sorted(value.items()))
    return {name: value[name] for name in _sorted(value, _INNER.get(key, ()))}


def _sorted(mapping: Mapping[str, Any], known: tuple[str, ...] | list[str]) -> list[str]:
    return [key for key in known if key in mapping] + [key for key in mapping if key not in known]
