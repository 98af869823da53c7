"""The errors that services raise for people; the REST API turns them into problem documents."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldError:
    """One wrong field of a request: its dotted name and what is wrong with it."""

    field: str
    message: str


class MusterError(Exception):
    """A refusal with a reason that its reader can act on."""

    status, code, title = 400, "bad-request", "The request cannot be used"

    def __init_subclass__(cls, *, status: int = 0, code: str = "", title: str = "") -> None:
        cls.status, cls.code, cls.title = status or cls.status, code or cls.code, title or cls.title

    def __init__(self, detail: str, *, errors: tuple[FieldError, ...] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = errors


class Invalid(MusterError, status=422, code="invalid", title="Some fields are wrong"):
    """The request was understood, and a value in it is wrong."""

    @classmethod
    def field(cls, name: str, message: str) -> Invalid:
        return cls(f"{name}: {message}", errors=(FieldError(name, message),))

    @classmethod
    def fields(cls, errors: Sequence[FieldError]) -> Invalid:
        """The refusal of several fields."""
        return cls("; ".join(f"{one.field}: {one.message}" for one in errors)[:2000], errors=tuple(errors[:50]))


class NotFound(MusterError, status=404, code="not-found", title="Not found"):
    """There is no such object, or it is not the caller's: the two look the same."""


class Forbidden(MusterError, status=403, code="forbidden", title="Not allowed"):
    """The caller may see the object, and may not do this with it."""


class Conflict(MusterError, status=409, code="conflict", title="The state does not allow this"):
    """The object is in a state in which this cannot be done."""


class TooLarge(MusterError, status=413, code="too-large", title="The body is too large"):
    """The body is larger than this call accepts."""


class TooMany(MusterError, status=429, code="too-many", title="Too many requests"):
    """The caller sends faster than the rate limit allows."""

    def __init__(self, detail: str, *, retry_after_s: int) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class Unavailable(MusterError, status=503, code="unavailable", title="Temporarily unavailable"):
    """A part that this call needs is down; the same call can be sent again."""


class NoRoom(Unavailable, status=507, code="no-room", title="The platform has no room for this"):
    """A disk of the platform is full. Nothing was stored, and the same call can be sent again once there is room."""


def unknown_key(key: str, known: Collection[str]) -> str:
    """The message for a key of a body that is none of the known ones; it names the nearest of them."""
    return _unknown("key", key, known)


def unknown_parameter(name: str, known: Collection[str]) -> str:
    """The message for a query parameter that is none of the known ones; it names the nearest of them."""
    return _unknown("parameter", name, known) if known else "unknown parameter; this path takes none"


def unknown_word(word: str, known: Collection[str]) -> str:
    """The message for a word of a value that is none of the known ones; it names the nearest of them."""
    return _unknown("word", word, known)


def _unknown(noun: str, name: str, known: Collection[str]) -> str:
    nearest = difflib.get_close_matches(name[:100], known, n=1, cutoff=0.5)
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"known {noun}s: " + ", ".join(sorted(known))
    return f"unknown {noun}; {hint}"
