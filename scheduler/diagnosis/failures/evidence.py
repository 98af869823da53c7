"""What is known about an attempt that failed, and what is concluded from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Category(StrEnum):
    """Whose failure it is."""

    USER = "user"
    AI_ENGINE = "ai_engine"
    INFRASTRUCTURE = "infrastructure"
    PLATFORM = "platform"


class Retry(StrEnum):
    """Whether another try can help: never, after a pause, if the owner says so, or on another GPU or node."""

    NO = "no"
    YES = "yes"
    MAYBE = "maybe"
    ELSEWHERE = "elsewhere"


class Strength(StrEnum):
    """How much a line says about the cause of a failure."""

    CERTAIN = "certain"
    """What went wrong, by who must know: a driver of its device."""
    CAUSE = "cause"
    """What went wrong, in so many words."""
    GENERIC = "generic"
    """An exception or message that many causes have."""
    SYMPTOM = "symptom"
    """What is seen when something else has gone wrong."""
    ECHO = "echo"
    """A summary of the end, which says nothing by itself."""


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of one rank's log.

    `marks` are pairs of an offset in `data` and the time at which the bytes from there on came, ascending; without them
    `ended_at_s` says when the rank was over. Times are seconds of any one clock. Who has left out the middle of a long
    log says at which offset, and how many lines ended there, so that lines are numbered as in the whole.
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
    """What a node's kernel or driver said of a GPU: an Xid with its message, or a message alone."""

    xid: int | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The class of a failure, what follows from it, and the line that says so (empty if no line does).

    `line_number` counts from 1 in the data of the tail of `rank`. `confidence` is between 0 and 1: it tells how strong
    the evidence is, and is no probability.
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
