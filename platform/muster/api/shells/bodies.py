"""Bodies of requests about shells."""

from rest_framework import serializers

from muster.api.fields import Flag, Integer, Shape, Text
from muster.shells.services import MAX_TERMINAL_SIDE, MAX_WORDS


class NewShell(Shape):
    """The shell to open."""

    rank = Integer(min_value=0, max_value=100_000, default=0, help_text="The rank to open the shell in, from 0.")
    command = serializers.ListField(
        child=Text(max_length=16 << 10, allow_blank=True, trim_whitespace=False),
        max_length=MAX_WORDS,
        default=list,
        help_text="A program and its arguments; an interactive shell if empty.",
    )
    terminal = Flag(default=True, help_text="Whether it gets a terminal; without one its input can come to an end.")
    term = Text(max_length=64, default="xterm", help_text="The type of the terminal, as in the variable TERM.")
    rows = Integer(
        min_value=1, max_value=MAX_TERMINAL_SIDE, default=24, help_text="Height of the terminal in characters."
    )
    cols = Integer(
        min_value=1, max_value=MAX_TERMINAL_SIDE, default=80, help_text="Width of the terminal in characters."
    )
