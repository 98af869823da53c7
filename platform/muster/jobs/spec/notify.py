"""Events that the owner of a job can be notified of, and the channels."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from enum import StrEnum
from typing import Any


class Channel(StrEnum):
    """A way to notify people."""

    MAIL = "mail"
    WEBHOOK = "webhook"


class Kind(StrEnum):
    """Events that users can be notified of. More may be added: readers skip kinds that they do not know."""

    STARTED = "started"
    ENDED = "ended"
    FAILED = "failed"
    PREEMPTED = "preempted"
    REQUEUED = "requeued"
    SCREENING = "screening"
    ADVICE = "advice"
    IDLE = "idle"
    KEPT = "kept"


def read_kinds(value: object) -> list[str]:
    """The kinds that a list names, each once and in order; `ValueError` says which word is none."""
    if not isinstance(value, list):
        raise ValueError("write a list, such as [ended, failed]")
    named = {_word(one, Kind) for one in value}
    return [kind.value for kind in Kind if kind in named]


def read_notify(value: object) -> dict[str, list[str]]:
    """The kinds of events by channel, as a spec names them; `ValueError` says what is wrong.

    A mapping gives each channel its kinds, and nothing goes over one that it does not name. A list has kinds, channels
    or both: without a channel it means all of them, and without a kind the end of the job.
    """
    if isinstance(value, Mapping):
        told = {_word(name, Channel): kinds for name, kinds in value.items()}
        return {channel.value: _kinds_of(channel, told.get(channel, [])) for channel in Channel}
    if not isinstance(value, list):
        raise ValueError("write a list, such as [ended, failed], or a mapping, such as {mail: [failed]}")
    words = {str(_word(one, [*Kind, *Channel])) for one in value}
    kinds = [kind.value for kind in Kind if kind in words] or ([Kind.ENDED.value] if words else [])
    channels = {channel for channel in Channel if channel in words} or set(Channel)
    return {channel.value: list(kinds) if channel in channels else [] for channel in Channel}


def _kinds_of(channel: Channel, value: Any) -> list[str]:
    try:
        return read_kinds(value)
    except ValueError as error:
        raise ValueError(f"{channel}: {error}") from error


def _word(value: object, words: Any) -> Any:
    known = {str(word): word for word in words}
    if isinstance(value, str) and value in known:
        return known[value]
    nearest = difflib.get_close_matches(str(value)[:60], known, n=1, cutoff=0.6)
    hint = f"did you mean {nearest[0]!r}?" if nearest else "known: " + ", ".join(known)
    raise ValueError(f"{str(value)[:60]!r} is unknown; {hint}")
