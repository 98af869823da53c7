"""Bodies of requests for commands of Slurm."""

from __future__ import annotations

from rest_framework import serializers

from muster.api.fields import Shape, Text
from muster.jobs.spec.spec import MAX_COMMAND_CHARS
from muster.sbatch.environment import MAX_BYTES

_MAX_CHARS = 65_536


class SlurmScript(Shape):
    """The call of sbatch: the script, its options, and where it is submitted."""

    arguments = serializers.ListField(
        child=Text(allow_blank=True, trim_whitespace=False, max_length=_MAX_CHARS),
        default=[],
        max_length=1000,
        help_text="Options of sbatch, such as `--time=2:00:00`.",
    )
    script = Text(
        allow_blank=True,
        default="",
        trim_whitespace=False,
        max_length=MAX_COMMAND_CHARS,
        help_text="The text of the script; empty with `--wrap`.",
    )
    script_name = Text(default="sbatch", max_length=200, help_text="The name of its file, and of a job without one.")
    script_arguments = serializers.ListField(
        child=Text(allow_blank=True, trim_whitespace=False, max_length=_MAX_CHARS),
        default=[],
        max_length=1000,
        help_text="The words behind the script.",
    )
    environment = serializers.DictField(
        child=Text(allow_blank=True, trim_whitespace=False, max_length=MAX_BYTES),
        default={},
        help_text="The environment of the submitter: `SBATCH_*` set options, and a job that runs in place gets it.",
    )
    folder = Text(
        allow_blank=True,
        default="",
        trim_whitespace=False,
        max_length=4096,
        help_text="The absolute path of the folder in which it is submitted; empty: unknown.",
    )
    host = Text(allow_blank=True, default="", max_length=255, help_text="The host on which it is submitted.")
    zone = Text(allow_blank=True, default="", max_length=100, help_text="The time zone of times, by name or as +HHMM.")
    code = Text(
        allow_blank=True,
        default="",
        max_length=64,
        help_text="SHA-256 of the uploaded folder, for a script that does not run in place.",
    )


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
