"""Checks of names, and Django's validation errors as refusals that name the fields."""

from __future__ import annotations

import re

from django.core.exceptions import ValidationError
from django.db import models

from muster.common.errors import FieldError, Invalid


def has_parent_part(text: str) -> bool:
    """Whether the text, read as a path with slashes or backslashes, leads to a parent folder."""
    return ".." in re.split(r"[/\\]", text)


def printable(text: str) -> str:
    """The text with a space for each character that cannot be shown."""
    return "".join(char if char.isprintable() else " " for char in text)


def require_valid(instance: models.Model) -> None:
    """Return if the object satisfies its fields' rules and constraints, and raise `Invalid` if not."""
    try:
        instance.full_clean()
    except ValidationError as error:
        raise invalid_from(error) from error


def invalid_from(error: ValidationError, *, field: str = "") -> Invalid:
    """The refusal that says the same; `field` names the culprit where the error does not."""
    if hasattr(error, "error_dict"):
        fields = tuple(FieldError(name, " ".join(texts)) for name, texts in error.message_dict.items())
    else:
        fields = (FieldError(field, " ".join(error.messages)),)
    return Invalid.fields(fields)
