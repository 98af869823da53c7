"""Formats of tables: `-o` with letters behind `%`, and `-O` with names between commas."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

_LETTER = re.compile(r"%(?P<right>\.?)(?P<width>\d*)(?P<letter>\S)", re.ASCII)
_NAME = re.compile(r"(?P<name>[^:]*)(?P<more>:(?P<right>\.?)(?P<width>\d*)(?P<suffix>.*))?", re.ASCII | re.DOTALL)
_NAMES_WIDTH = 20
MAX_WIDTH = 1000
"""Wider columns are cut to this, so that a format costs no memory."""


@dataclass(frozen=True, slots=True)
class Column:
    """A place for the value of a field."""

    field: str
    """Its letter or name."""
    width: int = 0
    """Characters, to which values are padded or cut; 0: as they are."""
    right: bool = False
    """True if values are padded on their left."""

    def fitted(self, value: str) -> str:
        """The value in this width."""
        if not self.width:
            return value
        cut = value[: self.width]
        return cut.rjust(self.width) if self.right else cut.ljust(self.width)


@dataclass(frozen=True, slots=True)
class Format:
    """A format, read: text and columns in order."""

    parts: tuple[str | Column, ...]
    unknown: tuple[str, ...] = ()
    """Letters or names that are no field: letters stay in the text, names are left out."""

    def line(self, value: Callable[[str], str]) -> str:
        """A line of the table, from the value of each field."""
        return "".join(part if isinstance(part, str) else part.fitted(value(part.field)) for part in self.parts)

    @property
    def fields(self) -> tuple[str, ...]:
        """The letters or names of its columns."""
        return tuple(part.field for part in self.parts if isinstance(part, Column))


def letters_format(text: str, known: Collection[str]) -> Format:
    """The format that a value of `-o` means: `%[.][width]X` is the field X, `%%` a per cent sign."""
    unknown: list[str] = []

    def parts() -> Iterator[str | Column]:
        end = 0
        for found in _LETTER.finditer(text):
            yield text[end : found.start()]
            end = found.end()
            letter = found["letter"]
            if letter == "%":
                yield "%"
            elif letter in known:
                yield Column(letter, _width(found["width"]), bool(found["right"]))
            else:
                unknown.append(letter)
                yield found[0]
        yield text[end:]

    return Format(tuple(part for part in parts() if part), tuple(unknown))


def names_format(text: str, known: Collection[str]) -> Format:
    """The format that a value of `-O` means: `name[:[.][width][suffix]]` between commas, whatever the case of names.

    A name alone has 20 characters; a colon without a width takes values as they are.
    """
    parts: list[str | Column] = []
    unknown: list[str] = []
    for item in text.split(","):
        found = _NAME.fullmatch(item)
        assert found is not None  # noqa: S101 (the pattern matches any text)
        name = found["name"].lower()
        if name not in known:
            unknown.append(found["name"])
            continue
        width = _width(found["width"]) if found["more"] else _NAMES_WIDTH
        parts += [Column(name, width, bool(found["right"])), found["suffix"] or ""]
    return Format(tuple(part for part in parts if part), tuple(unknown))


def table(form: Format, rows: Iterable[Callable[[str], str]], headers: Callable[[str], str] | None) -> str:
    """The lines of a table, each row given by its values; without a header line if there are no `headers`."""
    lines = [*([headers] if headers else []), *rows]
    return "".join(f"{form.line(value)}\n" for value in lines)


def _width(digits: str | None) -> int:
    return min(int(digits[:9]), MAX_WIDTH) if digits else 0
