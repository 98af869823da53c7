"""The texts of a spec, such as names, durations and paths, and its values by name: each with what is refused of it."""

from __future__ import annotations

import math
import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from muster.common.validation import has_parent_part
from muster.jobs.spec.units import (
    DURATION_PATTERN,
    MOMENT_PATTERN,
    SIZE_PATTERN,
    parse_duration_s,
    parse_moment,
    parse_size_mib,
)
from nodeagent.protocol.messages import workdir_problem
from scheduler.model.given import check_name

MAX_NODES = 4096
MAX_OUTPUT_CHARS = 200

# A registry's name for an image: host and port, path, tag, digest.
_IMAGE = re.compile(
    r"(?:[A-Za-z0-9][A-Za-z0-9.\-]*(?::[0-9]{1,5})?/)?"
    r"[a-z0-9]+(?:[._\-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._\-]+[a-z0-9]+)*)*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.\-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)
_NODE_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


def _printable(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise ValueError("use printable characters only: no line breaks, control or direction characters")
    return text


def _name(text: str) -> str:
    if has_parent_part(text):
        raise ValueError("use no `..` between slashes: scripts make paths of names")
    return _printable(text)


def _node_name(text: str) -> str:
    if not _NODE_NAME.fullmatch(text):
        raise ValueError(f"{text[:70]!r} cannot be the name of a node: write a name such as gpu01")
    return text


def _without_repeats(names: list[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _duration(text: str) -> str:
    if parse_duration_s(text) <= 0:
        raise ValueError("the duration must be longer than nothing")
    return text


def _size(text: str) -> str:
    if parse_size_mib(text) <= 0:
        raise ValueError("the size must be more than nothing")
    return text


def _moment(text: str) -> str:
    parse_moment(text)
    return text


def _workdir(text: str) -> str:
    if not text.isprintable() or has_parent_part(text):
        raise ValueError("the path must be printable and free of `..`")
    problem = workdir_problem(text)
    if problem:
        raise ValueError(f"{text[:100]!r}: {problem}")
    return text


def _output(text: str) -> str:
    if not text.isprintable() or text.startswith("/") or has_parent_part(text):
        raise ValueError("write a printable path below the working folder, without `..`; *, ? and ** stand for names")
    if not any(part not in {"", "."} for part in text.split("/")):
        raise ValueError("it names nothing; ** names every file")
    return text


def _image(text: str) -> str:
    if not _IMAGE.fullmatch(text):
        raise ValueError(
            "write the image as its registry knows it, such as pytorch/pytorch:2.9 or host:5000/team/x@sha256:…"
        )
    return text


def _with_unit(example: str) -> BeforeValidator:
    """Refuses a plain number, which some would read as seconds and others as minutes."""

    def check(value: object) -> object:
        if isinstance(value, int | float) and not isinstance(value, bool):
            raise ValueError(f"{value} has no unit: write {example}")
        return value

    return BeforeValidator(check, json_schema_input_type=str)


Text = Annotated[str, AfterValidator(_printable)]
Name = Annotated[str, AfterValidator(_name)]
NodeNames = Annotated[
    list[Annotated[str, AfterValidator(_node_name)]], AfterValidator(_without_repeats), Field(max_length=MAX_NODES)
]
Duration = Annotated[
    str,
    _with_unit("a duration with its unit, e.g. 90s, 30m, 24h"),
    AfterValidator(_duration),
    Field(json_schema_extra={"pattern": DURATION_PATTERN}),
]
Size = Annotated[
    str,
    _with_unit("a size with its unit, e.g. 512MiB, 64GiB"),
    AfterValidator(_size),
    Field(json_schema_extra={"pattern": SIZE_PATTERN}),
]

Moment = Annotated[str, AfterValidator(_moment), Field(json_schema_extra={"pattern": MOMENT_PATTERN})]
Workdir = Annotated[str, AfterValidator(_workdir), Field(min_length=1, max_length=500)]
Output = Annotated[str, AfterValidator(_output), Field(min_length=1, max_length=MAX_OUTPUT_CHARS)]
Image = Annotated[str, AfterValidator(_image), Field(max_length=400)]


MAX_ENV_CHARS, MAX_ENV, MAX_TAGS = 32_768, 500, 50
MAX_PARAMS, MAX_PARAM_CHARACTERS = 50, 200

_TAG_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-/]{0,62}")

ParamValue = bool | int | float | str


def checked_env(values: object) -> object:
    """Numbers are welcome as values, as people write them in YAML; everything is stored as text."""
    if not isinstance(values, dict):
        return values
    if len(values) > MAX_ENV:
        raise ValueError(f"{len(values)} variables: at most {MAX_ENV}")
    for name, value in values.items():
        check_name(str(name))
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError(f"the value of {name} must be text; put true and false in quotes")
        if len(str(value)) > MAX_ENV_CHARS:
            raise ValueError(f"the value of {name} is longer than {MAX_ENV_CHARS} characters")
    return {name: str(value) for name, value in values.items()}


def checked_tags(values: object) -> object:
    return _named_values(values, "tag")


def checked_labels(values: object) -> object:
    return _named_values(values, "label")


def _named_values(values: object, kind: str) -> object:
    if not isinstance(values, dict):
        return values
    if len(values) > MAX_TAGS:
        raise ValueError(f"{len(values)} {kind}s: at most {MAX_TAGS}")
    for name, value in values.items():
        if not _TAG_NAME.fullmatch(str(name)) or has_parent_part(str(name)):
            raise ValueError(f"{str(name)[:60]!r} cannot be the name of a {kind}")
        if isinstance(value, bool) or not isinstance(value, str | int | float) or len(str(value)) > 200:
            raise ValueError(f"the {kind} {name} must be a string of at most 200 characters")
        if not str(value).isprintable():
            raise ValueError(f"the {kind} {name} must be printable")
    return {name: str(value) for name, value in values.items()}


def checked_params(values: object) -> object:
    """Parameters, whose values keep their type."""
    if not isinstance(values, dict):
        return values
    if len(values) > MAX_PARAMS:
        raise ValueError(f"{len(values)} parameters: at most {MAX_PARAMS}")
    for name, value in values.items():
        require_param_name(str(name))
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"the value of {name} must be finite")
        if not isinstance(value, ParamValue) or len(str(value)) > MAX_PARAM_CHARACTERS:
            raise ValueError(f"the value of {name} must be a number, a boolean or a text of at most 200 characters")
        if not str(value).isprintable():
            raise ValueError(f"the value of {name} must be printable")
    return values


def require_param_name(name: str) -> None:
    """Return if a parameter may have this name; `ValueError` if it is not a variable name, or the platform sets it."""
    check_name(name)
    if len(name) > MAX_PARAM_CHARACTERS:
        raise ValueError(f"{name[:60]!r} is longer than {MAX_PARAM_CHARACTERS} characters")


def param_text(value: ParamValue) -> str:
    """A parameter as its environment variable has it: `true` and `false` for a boolean."""
    return str(value).lower() if isinstance(value, bool) else str(value)


Params = Annotated[dict[str, ParamValue], BeforeValidator(checked_params)]
