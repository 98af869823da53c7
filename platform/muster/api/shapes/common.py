"""Shapes that several resources share."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

Shape = serializers.Serializer[Any]
Choice = serializers.ChoiceField
Text = serializers.CharField
Integer = serializers.IntegerField
Number = serializers.FloatField
Flag = serializers.BooleanField
Moment = serializers.DateTimeField


def values(enum: Any) -> list[tuple[str, str]]:
    """The members of an enum as the choices of a field, as pairs of value and name."""
    return [(member.value, member.name) for member in enum]


class FieldErrorShape(Shape):
    """One wrong field: its dotted name and what is wrong with it."""

    field = Text(allow_blank=True)
    message = Text()

    class Meta:
        ref_name = "FieldError"


class Problem(Shape):
    """A problem document (RFC 9457)."""

    type = Text()
    title = Text()
    status = Integer()
    detail = Text(allow_blank=True)
    errors = FieldErrorShape(many=True)  # type: ignore[assignment]
