"""A job's text on a terminal."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_client.local.terminal import MAX_PENDING_CHARS, EscapeFilter, LogWriter, clean

CASES = {
    "plain text": ("epoch 1\tloss 0.3\r\n", "epoch 1\tloss 0.3\r\n"),
    "colours stay": ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
    "a colour left on is ended": ("\x1b[1;32mgreen", "\x1b[1;32mgreen\x1b[0m"),
    "the cursor is not moved": ("a\x1b[2J\x1b[1;1Hb", "ab"),
    "the title is not set": ("a\x1b]0;owned\x07b", "ab"),
    "a link is taken apart": ("\x1b]8;;http://x\x1b\\text\x1b]8;;\x1b\\", "text"),
    "the clipboard is not set": ("a\x1b]52;c;cm0gLXJm\x07b", "ab"),
    "a device string is dropped": ("a\x1bP+q544e\x1b\\b", "ab"),
    "the keyboard mode is no colour": ("a\x1b[>4;1mb", "ab"),
    "eight-bit controls too": ("a\x9b2Jb\x9d0;t\x9cc", "abc"),
    "a bell and a backspace": ("a\x07\x08b", "ab"),
    "a string without an end stops at the line": ("\x1b]0;title\nnext", "\nnext"),
    "a lone escape": ("a\x1b", "a"),
    "a broken sequence": ("\x1b[12\nx", "12\nx"),
    "a charset switch": ("\x1b(0abc", "abc"),
    "a change of direction is shown": ("a\u202eb\u2066c", "a\\u202eb\\u2066c"),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("step", [1, 3, 1000])
def test_only_colours_pass(text: str, expected: str, step: int) -> None:
    filter_ = EscapeFilter(colour=True)
    pieces = [filter_.feed(text[i : i + step]) for i in range(0, len(text), step)]
    assert "".join(pieces) + filter_.finish() == expected


def test_colours_go_too_when_they_are_not_wanted() -> None:
    filter_ = EscapeFilter(colour=False)
    assert filter_.feed("\x1b[31mred\x1b[0m") + filter_.finish() == "red"


def test_an_endless_sequence_does_not_hold_back_the_rest() -> None:
    filter_ = EscapeFilter(colour=True)
    assert "x" * 100 in filter_.feed("\x1b]" + "x" * (MAX_PENDING_CHARS + 100))


ESCAPES = st.lists(
    st.sampled_from(
        ["\x1b", "[", "]", "P", "0", ";", "m", "H", "\x07", "\\", "\n", "\x9b", "\x9d", "\x9c", "a", "ü", ">"]
    )
).map("".join)


@given(pieces=st.lists(ESCAPES))
def test_no_control_character_ever_passes_outside_of_a_colour(pieces: list[str]) -> None:
    filter_ = EscapeFilter(colour=False)
    shown = "".join([*(filter_.feed(piece) for piece in pieces), filter_.finish()])
    assert not [char for char in shown if (ord(char) < 32 and char not in "\t\n\r") or 0x7F <= ord(char) < 0xA0]


def test_a_name_becomes_one_clean_line() -> None:
    assert clean("a\x1b[2J\nb\tc\x1b[31m") == "a b c"


@pytest.mark.parametrize("mark", "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
def test_a_character_that_changes_the_direction_is_an_escape_in_a_name(mark: str) -> None:
    assert clean(f"gnp.{mark}exe") == f"gnp.\\u{ord(mark):04x}exe"


def test_a_pipe_gets_the_bytes_as_they_are() -> None:
    stream = io.BytesIO()
    writer = LogWriter(stream, terminal=False, colour=False)
    writer.write(b"\x1b[2J\xff\x00" + "\u202e".encode())
    writer.close()
    assert stream.getvalue() == b"\x1b[2J\xff\x00\xe2\x80\xae"


def test_a_terminal_gets_characters_that_were_cut_in_two() -> None:
    stream = io.BytesIO()
    writer = LogWriter(stream, terminal=True, colour=False)
    for byte in "Zürich €".encode():
        writer.write(bytes([byte]))
    writer.close()
    assert stream.getvalue().decode() == "Zürich €"
