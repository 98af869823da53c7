"""The evidence about a failed attempt, and the verdict on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Category(StrEnum):
    """The party responsible for a failure."""

    USER = "user"
    AI_ENGINE = "ai_engine"
    INFRASTRUCTURE = "infrastructure"
    PLATFORM = "platform"


class Retry(StrEnum):
    """Chances of a retry: none, after a pause, if the owner says so, or on another GPU or node."""

    NO = "no"
    YES = "yes"
    MAYBE = "maybe"
    ELSEWHERE = "elsewhere"


class Strength(StrEnum):
    """Weights of a log line as evidence for the cause of a failure."""

    CERTAIN = "certain"
    """The cause, reported by the part that knows it, such as the driver of a device."""
    CAUSE = "cause"
    """The cause in plain words."""
    GENERIC = "generic"
    """An exception or message that many causes produce."""
    SYMPTOM = "symptom"
    """A consequence of another error."""
    ECHO = "echo"
    """A summary at the end, which explains nothing by itself."""


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of one rank's log.

    `marks` are pairs of an offset in `data` and the time at which the bytes from there on arrived, ascending; without
    them `ended_at_s` is the time at which the rank ended. All times are seconds of one clock. If the middle of a long
    log was cut out, `cut_at` is the offset and `cut_lines` the number of lines cut, so that line numbers match the
    whole log.
    """

    data: bytes
    rank: int = 0
    status: int | None = None
    signal: int | None = None
    ended_at_s: float | None = None
    cut_at: int | None = None
    cut_lines: int = 0
    marks: Sequence[tuple[int, float]] = ()


@dataclass(frozen=True, slots=True)
class GpuEvent:
    """A report about a GPU by a node's kernel or driver: an Xid with its message, or a message alone."""

    xid: int | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The class of a failure, its consequences, and the line that shows it (empty if no line does).

    `line_number` counts from 1 in the data of the tail of `rank`. `confidence` is between 0 and 1: it measures the
    strength of the evidence and is not a probability.
    """

    failure: str
    category: Category
    retry: Retry
    confidence: float
    line: str
    hint: str
    rule: str = ""
    line_number: int | None = None
    rank: int | None = None
