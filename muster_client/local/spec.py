"""Reads a job spec from YAML, strictly, and applies `--set` to it. The server decides which keys exist."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from muster_client.errors import SpecError, UsageError
from muster_client.local.terminal import clean
from scheduler.documents import FLOAT, DocumentError, load_yaml

if TYPE_CHECKING:
    from muster_client.answers.terms import JobSpec, JsonObject

MAX_SPEC_BYTES = 1024 * 1024


_TAG = "tag:yaml.org,2002:"


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a block, and quotes what only YAML 1.2 reads as a number, such as 1e3."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(_TAG + "str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_implicit_resolver(_TAG + "float", FLOAT, list("-+.0123456789"))


def load_spec(text: str, *, name: str = "the job spec") -> JobSpec:
    """Return the mapping that a YAML (or JSON) text holds."""
    if len(text.encode(errors="replace")) > MAX_SPEC_BYTES:
        raise SpecError(f"{name} is larger than 1 MiB.")
    value = _parse(text, name)
    if not isinstance(value, dict):
        raise SpecError(f"{name} has to be a mapping, such as 'command: python train.py'.")
    return value


def read_spec(path: Path) -> JobSpec:
    """Return the job spec in a file."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SPEC_BYTES + 1)
        return load_spec(data.decode(), name=str(path))
    except OSError as error:
        raise SpecError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise SpecError(f"{path} is not text in UTF-8.") from error


def parse_value(text: str) -> Any:
    """Return what a text would mean as a value in the YAML file."""
    return _parse(text, f"the value {text!r}")


def apply_sets(spec: JobSpec, sets: list[str]) -> JobSpec:
    """Return the spec with `key=value` pairs put in; `env.LR=0.1` reaches into a mapping."""
    result = dict(spec)
    for item in sets:
        key, separator, value = item.partition("=")
        if not separator or not key:
            raise SpecError(f"--set {item}: write it as key=value.")
        _put(result, key.split("."), parse_value(value), item)
    return result


def without_defaults(spec: JobSpec, schema: JsonObject) -> JobSpec:
    """Return a stored spec without the values that it would have anyway."""
    properties = schema.get("properties", {})

    def is_default(key: str, value: Any) -> bool:
        known = properties.get(key, {})
        return value in ("", None, [], {}) or ("default" in known and value == known["default"])

    return {key: value for key, value in spec.items() if not is_default(key, value)}


def spec_text(spec: JobSpec) -> str:
    """Return a spec as YAML that `load_spec` reads back to the same spec; text of several lines stands as a block."""
    text = _dump(spec, allow_unicode=True)
    # Characters that would change how a terminal shows the text are written as escapes.
    return text if clean(text) == text else _dump(spec, allow_unicode=False)


def _dump(spec: JobSpec, *, allow_unicode: bool) -> str:
    return str(yaml.dump(spec, Dumper=_Dumper, sort_keys=False, allow_unicode=allow_unicode, width=math.inf))


def _put(spec: JobSpec, path: list[str], value: Any, item: str) -> None:
    here = spec
    for part in path[:-1]:
        inner = here.get(part, {})
        if not isinstance(inner, dict):
            raise SpecError(f"--set {item}: {part} is not a mapping.")
        here[part] = dict(inner)
        here = here[part]
    here[path[-1]] = value


def _parse(text: str, name: str) -> Any:
    try:
        return load_yaml(text)
    except DocumentError as error:
        raise SpecError(f"{name}{', ' if error.where else ''}{error.where}: {error.problem}.") from error


def changed_keys(before: JobSpec, after: JobSpec, *, inner: str) -> JobSpec:
    """Return the keys of a spec that have other values now, and of the mapping `inner` only those of its keys."""
    changes = _changed(before, {key: value for key, value in after.items() if key != inner})
    if not isinstance(after[inner], dict):
        raise UsageError(f"--set {inner}: set its keys, such as {inner}.{next(iter(before[inner]))}=...")
    if within := _changed(before[inner], after[inner]):
        changes[inner] = within
    return changes


def _changed(before: JobSpec, after: JobSpec) -> JobSpec:
    return {key: value for key, value in after.items() if key not in before or value != before[key]}
