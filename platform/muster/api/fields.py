"""The fields of bodies and queries, by kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rest_framework import serializers

from muster.common.errors import unknown_key

if TYPE_CHECKING:
    _Serializer = serializers.Serializer[Any]
else:
    _Serializer = serializers.Serializer


# The framework's own messages are sentences about "this field"; ours say what to write, behind the field's name.
_ANY: Mapping[str, str] = {"required": "it is required", "null": "write a value; null is none"}
_LENGTHS: Mapping[str, str] = {
    "max_length": "write at most {max_length} characters",
    "min_length": "write at least {min_length} characters",
}
_BOUNDS: Mapping[str, str] = {
    "max_value": "write at most {max_value}",
    "min_value": "write at least {min_value}",
    "max_string_length": "write a smaller number",
}


class Shape(_Serializer):
    """The fields of an object in a body or a query; any other key is refused."""

    default_error_messages = {**_ANY, "invalid": "write an object"}

    def to_internal_value(self, data: Any) -> Any:
        """The values of a body; `ValidationError` if some fields are wrong, or a key is not one of the fields."""
        if isinstance(data, Mapping):
            known = [name for name, field in self.fields.items() if not field.read_only]
            unknown = {str(key)[:100]: [unknown_key(str(key), known)] for key in data if key not in known}
            if unknown:
                raise serializers.ValidationError(unknown)
        return super().to_internal_value(data)


class Choice(serializers.ChoiceField):
    """One of some values; the refusal of another value lists them."""

    default_error_messages = {**_ANY}

    def __init__(self, choices: Any, **options: Any) -> None:
        super().__init__(choices, **options)
        listed = ", ".join(str(value) for value in self.choices)
        self.error_messages["invalid_choice"] = f"write one of {listed}"


class Text(serializers.CharField):
    """Text."""

    default_error_messages = {**_ANY, **_LENGTHS, "invalid": "write text", "blank": "write something"}


class Integer(serializers.IntegerField):
    """A whole number."""

    default_error_messages = {**_ANY, **_BOUNDS, "invalid": "write a whole number"}


class Number(serializers.FloatField):
    """A number."""

    default_error_messages = {**_ANY, **_BOUNDS, "invalid": "write a number"}


class Flag(serializers.BooleanField):
    """True or false."""

    default_error_messages = {**_ANY, "invalid": "write true or false"}


class Moment(serializers.DateTimeField):
    """A point in time."""

    default_error_messages = {**_ANY, "invalid": "write a time, such as 2026-11-28T09:30:00Z"}


def values(enum: Any) -> list[tuple[str, str]]:
    """The members of an enum as the choices of a field, as pairs of value and name."""
    return [(member.value, member.name) for member in enum]
