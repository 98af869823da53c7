"""Keeps text that others wrote from steering the user's terminal.

A job's output, and its name too, may hold escape sequences that set the title, move the cursor over earlier lines
or make the terminal answer as if the user had typed. Only colours (SGR) of a log pass, and only to a terminal.
Characters that change the direction of text, such as U+202E, are shown as escapes: they reorder what is read.
"""

from __future__ import annotations

import codecs
import re
from typing import BinaryIO

# Longer than any sequence with a meaning for us; an unfinished one past it is taken apart as plain text.
MAX_PENDING_CHARS = 4096
MAX_LINE_BYTES = 64 << 10

_STRING = r"(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\n\x07\x1b\x9c]*"
_SEQUENCE = re.compile(
    r"(?P<sgr>\x1b\[[0-9;:]*m)"
    r"|(?P<direction>[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069])"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # the other control sequences
    rf"|{_STRING}(?:\x07|\x1b\\|\x9c|(?=[\n\x1b]))"  # titles, links, device strings
    r"|\x1b[ -/]*[0-~]"  # the two-character escapes
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"  # what is left, but tab, new line and carriage return
)
_UNFINISHED = re.compile(rf"(?:\x1b(?:\[[0-?]*[ -/]*|[ -/]*)|\x9b[0-?]*[ -/]*|{_STRING}\x1b?)\Z")
_RESET = "\x1b[0m"
_RESETS = frozenset({_RESET, "\x1b[m"})


class EscapeFilter:
    """Removes escape sequences from text that comes in pieces; colours stay when asked for."""

    def __init__(self, *, colour: bool) -> None:
        self._colour = colour
        self._pending = ""
        self._coloured = False

    def feed(self, text: str) -> str:
        """Return the safe part of the text; an unfinished sequence at its end waits for the next piece."""
        text = self._pending + text
        self._pending = ""
        unfinished = _UNFINISHED.search(text)
        if unfinished and len(text) - unfinished.start() <= MAX_PENDING_CHARS:
            self._pending = text[unfinished.start() :]
            text = text[: unfinished.start()]
        return _SEQUENCE.sub(self._replace, text)

    def finish(self) -> str:
        """Return what is left, and end the colour that was on."""
        rest = _SEQUENCE.sub(self._replace, self._pending)
        self._pending = ""
        return rest + (_RESET if self._coloured else "")

    def _replace(self, match: re.Match[str]) -> str:
        sgr = match.group("sgr")
        if sgr is None or not self._colour:
            return _escaped(match)
        self._coloured = sgr not in _RESETS
        return str(sgr)


def clean(text: object) -> str:
    """Return a value as one line of text without any control character."""
    return re.sub(r"[\r\n\t]+", " ", _SEQUENCE.sub(_escaped, str(text)))


def _escaped(match: re.Match[str]) -> str:
    """A character that changes the direction of text as an escape; nothing for every other match."""
    direction = match.group("direction")
    return f"\\u{ord(direction):04x}" if direction else ""


class RankLines:
    """Joins the lines of ranks whose bytes come in turns, and puts the rank in front of each line."""

    def __init__(self) -> None:
        self._open: dict[int, bytes] = {}

    def feed(self, rank: int, data: bytes) -> bytes:
        """Return the lines that the bytes complete; an unfinished one waits for its end, or until it is very long."""
        *whole, rest = (self._open.pop(rank, b"") + data).split(b"\n")
        if len(rest) >= MAX_LINE_BYTES:
            whole, rest = [*whole, rest], b""
        if rest:
            self._open[rank] = rest
        return b"".join(self._labelled(rank, line) for line in whole)

    def finish(self) -> bytes:
        """Return the lines that have no end, in the order of the ranks."""
        rest = b"".join(self._labelled(rank, line) for rank, line in sorted(self._open.items()))
        self._open.clear()
        return rest

    def _labelled(self, rank: int, line: bytes) -> bytes:
        return b"[rank %d] %b\n" % (rank, line)


class LogWriter:
    """Writes a job's output: byte for byte into a file or pipe, filtered on a terminal, or by labelled lines."""

    def __init__(self, stream: BinaryIO, *, terminal: bool, colour: bool, labelled: bool = False) -> None:
        self._stream = stream
        self._filter = EscapeFilter(colour=colour) if terminal else None
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._lines = RankLines() if labelled else None

    def write(self, data: bytes, *, rank: int = 0) -> None:
        """Write and flush, so that a follower sees each piece when it comes."""
        if self._lines is not None:
            data = self._lines.feed(rank, data)
        self._write(data, final=False)

    def close(self) -> None:
        """Write what was held back; the stream stays open."""
        self._write(self._lines.finish() if self._lines is not None else b"", final=True)

    def _write(self, data: bytes, *, final: bool) -> None:
        if self._filter is not None:
            text = self._filter.feed(self._decoder.decode(data, final))
            data = (text + (self._filter.finish() if final else "")).encode()
        self._stream.write(data)
        self._stream.flush()
