"""Logs prepared for the rules: bounded, split into lines, without terminal codes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

HEAD_BYTES, TAIL_BYTES = 64 << 10, 384 << 10
"""The parts of a longer log that are read: this much of its beginning and of its end."""
LINE_CHARS = 400
"""The maximum length of a quoted line."""

_PIECE_BYTES = 2048
_OVERLAP_BYTES = 512
_MARK = "\ufeff".encode()
_MAX_ESCAPES = 60_000
# Line ends inside a line: a carriage return, or an escaped line end in a string of a JSON record.
_SOFT_END = b"\x0b\n"
_ESCAPES = re.compile(rb"\x1b(?:\[[0-9;:?<=>]{0,32}[ -/]{0,4}[@-~]|\][^\x07\x1b\n]{0,200}(?:\x07|\x1b\\)?|[@-Z\\^_])")
_JSON_COLOUR = re.compile(rb"\\u001[bB]\[[0-9;]{0,16}m")
_CONTROL = bytes(set(range(32)) - {9, 10, 13, 27}) + b"\x7f"


@dataclass(frozen=True, slots=True)
class Text:
    """The lines of a log, and the number of lines cut from its middle."""

    data: bytes
    gap: int = 0
    """The offset in `data` at which the head ends."""
    left_out_lines: int = 0

    def line_number(self, at: int) -> int:
        """The number of the line at this offset, as an editor counts."""
        hard = self.data.count(b"\n", 0, at) - self.data.count(_SOFT_END, 0, at)
        return 1 + hard + (self.left_out_lines if at >= self.gap else 0)

    def line_at(self, at: int) -> tuple[int, int]:
        """The bounds of the line at this offset, at most a piece's length to either side."""
        begin = self.data.rfind(b"\n", max(0, at - _PIECE_BYTES), at) + 1 or max(0, at - _PIECE_BYTES)
        end = self.data.find(b"\n", at, at + _PIECE_BYTES)
        return begin, (end if end >= 0 else min(len(self.data), at + _PIECE_BYTES))

    def quote(self, at: int) -> str:
        """The line at this offset for display: trimmed, and cut around the offset if it is long."""
        begin, end = self.line_at(at)
        line = self.data[begin:end]
        if len(line) > LINE_CHARS:
            first = max(0, min(at - begin - LINE_CHARS // 4, len(line) - LINE_CHARS))
            line = line[first : first + LINE_CHARS]
        return line.decode("utf-8", "replace").replace("\x0b", "").strip()

    def pieces(self) -> Iterator[tuple[int, int]]:
        """Parts of about two KiB that end at line ends; parts of a longer line overlap."""
        at, size = 0, len(self.data)
        while at < size:
            end = min(at + _PIECE_BYTES, size)
            following = end
            if end < size:
                newline = self.data.rfind(b"\n", at, end)
                if newline >= 0:
                    end = following = newline + 1
                else:
                    following = end - _OVERLAP_BYTES
            yield at, end
            at = following


def read(raw: bytes, *, cut_at: int | None = None, cut_lines: int = 0) -> Text:
    """The text of a log, whatever its bytes are. Apart from counting lines, the work is bounded by the two sizes.

    1. Of a long log only head and tail are read; `cut_at` says that the caller has cut it already.
    2. UTF-16 is recognised by its zeros and converted to UTF-8.
    3. Control characters and terminal codes are removed; carriage returns, and `\\n` in strings, end lines.
    """
    if cut_at is not None:
        head, tail = raw[:cut_at], raw[cut_at:]
    elif len(raw) > HEAD_BYTES + TAIL_BYTES:
        from_ = len(raw) - TAIL_BYTES
        from_ += (from_ - HEAD_BYTES) % 2  # keep UTF-16 characters whole
        head, tail, cut_lines = raw[:HEAD_BYTES], raw[from_:], raw.count(b"\n", HEAD_BYTES, from_)
    else:
        return Text(_plain(_as_utf8(raw)))
    first = _plain(_as_utf8(head))
    return Text(first + _SOFT_END + _plain(_as_utf8(tail)), gap=len(first) + len(_SOFT_END), left_out_lines=cut_lines)


def _as_utf8(raw: bytes) -> bytes:
    sample = raw[: 2 * (len(raw) // 2)][-4096:]
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    # Logs are mostly ASCII, so in UTF-16 nearly every second byte is zero, and hardly any other.
    if len(sample) < 8 or max(even, odd) * 4 < len(sample) or min(even, odd) * 20 > len(sample):
        return raw
    little = odd > even
    return raw.decode("utf-16-le" if little else "utf-16-be", "replace").encode("utf-8", "replace")


def _plain(data: bytes) -> bytes:
    data = data.translate(None, _CONTROL).removeprefix(_MARK)
    if b"\x1b" in data:
        if data.count(b"\x1b") > _MAX_ESCAPES:
            data = data[-_PIECE_BYTES * 64 :]
        data = _ESCAPES.sub(b"", data).replace(b"\x1b", b"")
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", _SOFT_END)
    if b"\\n" in data:
        data = data.replace(b"\\n", _SOFT_END).replace(b'\\"', b'"')
    if b'{"' in data:
        data = data.replace(b"\\r", _SOFT_END).replace(b"\\t", b"\t")
    if b"\\u001" in data:
        data = _JSON_COLOUR.sub(b"", data)
    return data
