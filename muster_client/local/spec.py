"""Reads a job spec from YAML, strictly, and applies `--set` to it.

The rules of YAML 1.2's core schema hold: `on` and `no` are text, `1:30` is text, a date is text. PyYAML follows 1.1 by
itself, where `retry: {on: [...]}` has the key `true`. Which keys exist is for the server to say.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from muster_client.answers.shapes import JobSpec, JsonObject
from muster_client.errors import SpecError
from muster_client.local.terminal import clean

MAX_SPEC_BYTES = 1024 * 1024
MAX_DEPTH = 32


class _Loader(yaml.SafeLoader):
    """A safe loader without aliases, tags and duplicate keys."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise _at(event.start_mark, "anchors and aliases (& and *) are not allowed")
        if getattr(event, "tag", None) is not None:
            raise _at(event.start_mark, f"tags (!) are not allowed, here {event.tag}")
        if self.depth >= MAX_DEPTH:
            raise _at(event.start_mark, f"nested more than {MAX_DEPTH} deep")
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise _at(key_node.start_mark, "a key has to be text")
            # `1: x` and `"1": x` are the same key in JSON, so keys are compared and kept as they are written.
            if key_node.value in seen:
                raise _at(key_node.start_mark, f"the key {key_node.value!r} is there twice")
            seen.add(key_node.value)
            key_node.tag = "tag:yaml.org,2002:str"
        return super().construct_mapping(node, deep)


def _float(_: _Loader, node: yaml.ScalarNode) -> float:
    value = float(node.value)
    if not math.isfinite(value):
        raise _at(node.start_mark, f"{node.value} is too large a number")
    return value


def _int(_: _Loader, node: yaml.ScalarNode) -> int:
    text = str(node.value)
    if len(text) > 30:
        raise _at(node.start_mark, "too large a number")
    return int(text, 10)


_TAG = "tag:yaml.org,2002:"
_FLOAT = re.compile(r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$")
_Loader.add_implicit_resolver(_TAG + "bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))
_Loader.add_implicit_resolver(_TAG + "null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver(_TAG + "int", re.compile(r"^[-+]?[0-9]+$"), list("-+0123456789"))
_Loader.add_implicit_resolver(
    _TAG + "float",
    _FLOAT,
    list("-+.0123456789"),
)
_Loader.add_constructor(_TAG + "int", _int)
_Loader.add_constructor(_TAG + "float", _float)


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a block, and quotes what only YAML 1.2 reads as a number, such as 1e3."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(_TAG + "str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_implicit_resolver(_TAG + "float", _FLOAT, list("-+.0123456789"))


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
        # The loader is a SafeLoader: it builds plain values only.
        return yaml.load(text, Loader=_Loader)  # noqa: S506
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = ", ".join(part for part in (error.context, error.problem) if part)
        raise SpecError(f"{name}{where}: {problem}.") from error
    except yaml.YAMLError as error:
        raise SpecError(f"{name} is not YAML: {error}") from error


def _at(mark: yaml.Mark, problem: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)
