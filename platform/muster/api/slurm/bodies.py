"""Bodies of requests for commands of Slurm."""

from __future__ import annotations

from rest_framework import serializers

from muster.api.fields import Shape, Text

_MAX_CHARS = 65_536


class SlurmCall(Shape):
    """The call of a command, as it would be typed."""

    arguments = serializers.ListField(
        child=Text(allow_blank=True, trim_whitespace=False, max_length=_MAX_CHARS),
        default=[],
        max_length=1000,
        help_text="The words behind the command's name, such as `--me`.",
    )
    environment = serializers.DictField(
        child=Text(allow_blank=True, trim_whitespace=False, max_length=_MAX_CHARS),
        default={},
        help_text="Variables that set options, such as `SQUEUE_FORMAT`, and `TZ`.",
    )
    input = Text(
        allow_blank=True,
        default="",
        trim_whitespace=False,
        max_length=_MAX_CHARS,
        help_text="Standard input, where an argument asks for it.",
    )
    folder = Text(
        allow_blank=True,
        default="",
        trim_whitespace=False,
        max_length=4096,
        help_text="The folder in which the command is called.",
    )
