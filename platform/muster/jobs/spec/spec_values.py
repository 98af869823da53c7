"""Values by name in a spec: environment variables, parameters and tags."""

from __future__ import annotations

import math
import re
from typing import Annotated

from pydantic import BeforeValidator

from muster.common.validation import has_parent_part
from scheduler.model.given import check_name

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
    if not isinstance(values, dict):
        return values
    if len(values) > MAX_TAGS:
        raise ValueError(f"{len(values)} tags: at most {MAX_TAGS}")
    for name, value in values.items():
        if not _TAG_NAME.fullmatch(str(name)) or has_parent_part(str(name)):
            raise ValueError(f"{str(name)[:60]!r} cannot be the name of a tag")
        if isinstance(value, bool) or not isinstance(value, str | int | float) or len(str(value)) > 200:
            raise ValueError(f"the tag {name} must be a string of at most 200 characters")
        if not str(value).isprintable():
            raise ValueError(f"the tag {name} must be printable")
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
