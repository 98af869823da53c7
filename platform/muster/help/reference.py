"""`docs/reference/spec.md`: every key of a spec, from the one schema by which specs are checked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from muster.arrays.spec import array_schema
from muster.jobs.spec.spec import json_schema
from muster.jobs.spec.units import DURATION_PATTERN, MOMENT_PATTERN, SIZE_PATTERN
from muster.sweeps.spec import SweepSpec

_HEAD = """# Spec reference

Every key of a job's spec, in the order in which specs are shown. A key that is not listed here is refused, and the
error names the nearest one. Only `command` must be given. A spec is YAML for the command line and the form, and the
same as JSON in REST:

```yaml
name: resnet
gpus: A100:2
command: python3 train.py
time: 24h
outputs: [ckpt/**]
```

A duration is a number with a unit (`90s`, `30m`, `24h`, `7d`, `1h30m`), a size a number with a unit (`512MiB`,
`128GiB`), a moment a date and time with its zone (`2026-12-01T08:00Z`). `muster dry-run` shows what a spec would get
without submitting it.

`manage.py spec_reference` writes this page from the schema by which the platform checks specs; a test compares them.
"""
_SWEEP = """
## Sweeps

With the key `sweep` a spec is that of a [sweep](../user/sweeps.md): many jobs that differ in their parameters.
"""
_ARRAY = """
## Arrays

With the key `array` a spec is that of an [array](../user/arrays.md): the same job many times, with other indices or
parameters. `array: 0-9` is short for `array: {indices: 0-9}`, and a list for `array: {params: [...]}`.
"""
_TABLE = "\n| key | value | default | meaning |\n|---|---|---|---|\n"
_KINDS = {"boolean": "true or false", "integer": "whole number", "number": "number", "string": "text"}
_PATTERNS = {DURATION_PATTERN: "duration", SIZE_PATTERN: "size", MOMENT_PATTERN: "moment"}


def spec_page() -> str:
    """The text of `docs/reference/spec.md`."""
    schema = json_schema(sweep=SweepSpec.model_json_schema(), array=array_schema())
    keys, parts = dict(schema["properties"]), schema["$defs"]
    sweep, array = keys.pop("sweep"), keys.pop("array")["anyOf"][-1]
    required = set(schema.get("required", ()))
    jobs = "\n".join(_rows("", keys, required, parts))
    sweeps = "\n".join(_rows("sweep.", sweep["properties"], set(sweep["required"]), parts))
    arrays = "\n".join(_rows("array.", array["properties"], set(), parts))
    return f"{_HEAD}\n## Jobs\n{_TABLE}{jobs}\n{_SWEEP}{_TABLE}{sweeps}\n{_ARRAY}{_TABLE}{arrays}\n"


def _rows(prefix: str, keys: dict[str, Any], required: set[str], parts: dict[str, Any]) -> Iterator[str]:
    """A row for each key, and after it those of the mapping that it may hold."""
    needed = "needed" if prefix else "**required**"  # of a key within a mapping: wherever there is the mapping
    for name, given in keys.items():
        default = needed if name in required else _default(given.get("default"))
        meaning = _cell(str(given.get("description", "")))
        kind, inner = _kind(given, parts)
        yield f"| `{prefix}{name}` | {_cell(kind)} | {_cell(default)} | {meaning} |"
        for part in inner:
            yield from _rows(f"{prefix}{name}.", part["properties"], set(part.get("required", ())), parts)


def _kind(given: dict[str, Any], parts: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """In words what may be written, and the mappings with keys of their own among it."""
    given = {**parts[given["$ref"].rpartition("/")[2]], **given} if "$ref" in given else given
    options = given.get("anyOf") or given.get("oneOf")
    if options:
        found = [_kind(option, parts) for option in options if option.get("type") != "null"]
        return " or ".join(dict.fromkeys(words for words, _ in found)), [part for _, some in found for part in some]
    if "enum" in given:
        return ", ".join(f"`{value}`" for value in given["enum"]), []
    if "const" in given:
        return f"`{given['const']}`", []
    if given.get("type") == "array":
        words, inner = _kind(given["items"], parts)
        return f"list of: {words}", inner
    if "properties" in given:
        return "mapping", [given]
    if given.get("type") == "object":
        values = given.get("additionalProperties")
        words, inner = _kind(values, parts) if isinstance(values, dict) else ("anything", [])
        return f"mapping of names to: {words}", inner
    if "type" not in given:
        return "anything", []
    words = _PATTERNS.get(given.get("pattern", ""), _KINDS[given["type"]])
    return words + _range(given), []


def _range(given: dict[str, Any]) -> str:
    least, most = given.get("minimum"), given.get("maximum")
    if least is not None and most is not None:
        return f", {least:,} to {most:,}"
    if least is None and most is not None:
        return f", above {given['exclusiveMinimum']:,}, at most {most:,}"
    return f", at least {least:,}" if least is not None else ""


def _default(value: object) -> str:
    return "" if value in (None, [], {}) else f"`{value if isinstance(value, str) else _inline(value)}`"


def _inline(value: object) -> str:
    """As YAML has it in one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_inline(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return value if isinstance(value, str) else json.dumps(value)


def _cell(text: str) -> str:
    """As the text stands in a table: bars end a cell there, and a pair of asterisks outside of code is emphasis."""
    return text.replace("|", "\\|").replace("*.", "\\*.").replace("/**", "/\\*\\*")
