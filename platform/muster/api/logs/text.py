"""Bytes of a log as text, in which a character that several pieces share is one character."""

from __future__ import annotations

import codecs

# A character has four bytes at most, so no more than three of them can lie in front of a place inside it.
MAX_BYTES_BEFORE = 3

_decoder = codecs.getincrementaldecoder("utf-8")


class RankText:
    """The text of one rank's log, from a place on.

    `before` = the bytes right before that place. Their complete characters belong to the text before it; an incomplete
    one is returned once the rest of it comes. If the place lies inside a character, the text begins with all of it.
    """

    def __init__(self, offset: int, before: bytes) -> None:
        self._decoder = _decoder("replace")
        self._decoder.decode(before[-MAX_BYTES_BEFORE:])
        self._next = offset

    def of(self, offset: int, body: bytes) -> str:
        """What the piece adds; bytes on two sides of a hole never make a character."""
        broken = ""
        if offset != self._next:
            broken = self._decoder.decode(b"", final=True)
            self._decoder.reset()
        self._next = offset + len(body)
        return broken + self._decoder.decode(body)
