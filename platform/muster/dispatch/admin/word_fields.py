"""Form fields of durations and sizes that are written as in a spec: 90s, 24h, 7d; 512MiB, 32GiB."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.core.exceptions import ValidationError
from django.db import models

from muster.events.labels import words
from muster.jobs.spec.units import parse_duration_s, parse_size_bytes, written_duration, written_size

if TYPE_CHECKING:
    from django.forms import TextInput as UnfoldAdminTextInputWidget
else:
    from unfold.widgets import UnfoldAdminTextInputWidget

_MIB = 1 << 20


class WordField(forms.CharField):
    """A number with its unit. Empty is None, where that is allowed."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"widget": UnfoldAdminTextInputWidget(attrs={"autocomplete": "off"}), **kwargs})

    def written(self, value: Any) -> str:
        raise NotImplementedError

    def number(self, text: str) -> float:
        """The number of a text; `ValueError` says how one is written."""
        raise NotImplementedError

    def prepare_value(self, value: Any) -> Any:
        """A stored number as text, and what was typed as it is."""
        return self.written(value) if isinstance(value, int | float) else value

    def to_python(self, value: Any) -> Any:
        """The number that is stored; whole ones without a fraction."""
        text = str(value or "").strip()
        if not text:
            return None
        try:
            number = self.number(text)
        except ValueError as error:
            raise ValidationError(f"{error}.", code="invalid") from error
        return int(number) if number == int(number) else number

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Whether another text was typed: the stored number may be finer than its text."""
        return bool(str(data or "").strip() != str(self.prepare_value(initial) or ""))


class DurationField(WordField):
    """Seconds."""

    def written(self, value: Any) -> str:
        return written_duration(value)

    def number(self, text: str) -> float:
        return parse_duration_s(text)


class SizeField(WordField):
    """A size in units of `unit_bytes` bytes."""

    def __init__(self, *, unit_bytes: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.unit_bytes = unit_bytes

    def written(self, value: Any) -> str:
        return written_size(value * self.unit_bytes)

    def number(self, text: str) -> float:
        """In the unit, rounded up."""
        return -(-parse_size_bytes(text) // self.unit_bytes)


def field_of_column(column: models.Field[Any, Any]) -> forms.Field | None:
    """The field of a column whose name says that it has seconds, MiB or bytes; None for any other."""
    parts = column.name.split("_")[1:]
    label = words(column.name).partition(" (")[0]
    common: dict[str, Any] = {
        "label": f"{label[:1].upper()}{label[1:]}",
        "help_text": column.help_text,
        "required": not column.null,
        "initial": column.get_default(),
    }
    if "s" in parts:
        return DurationField(**common)
    if "mib" in parts:
        return SizeField(unit_bytes=_MIB, **common)
    if "bytes" in parts:
        return SizeField(**common)
    return None
