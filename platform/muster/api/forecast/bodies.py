"""Bodies of requests about scripts."""

from __future__ import annotations

from rest_framework import serializers

from muster.api.bodies import JsonParser
from muster.api.fields import Shape, Text
from muster.common.errors import Invalid

MAX_SCRIPT_CHARS = 65_536
_LISTED = 1000


class ScriptParser(JsonParser):
    """`text/x-sbatch`: the script alone."""

    media_type = "text/x-sbatch"

    def read(self, body: bytes) -> object:
        """The body of a request that has only a script."""
        try:
            return {"script": body.decode()}
        except UnicodeDecodeError as error:
            raise Invalid.field("script", "it is not text in UTF-8") from error


class Script(Shape):
    """A script, and what sbatch would have been given beside it."""

    script = Text(
        allow_blank=True,
        default="",
        trim_whitespace=False,
        max_length=MAX_SCRIPT_CHARS,
        help_text="The script; empty with the option `--wrap`.",
    )
    name = Text(default="sbatch", max_length=200, help_text="The name of its file, by which the job is called.")
    options = serializers.ListField(
        child=Text(allow_blank=True, trim_whitespace=False, max_length=10_000),
        default=[],
        max_length=_LISTED,
        help_text="The options of the command line, such as `--gres=gpu:1`.",
    )
    arguments = serializers.ListField(
        child=Text(allow_blank=True, trim_whitespace=False, max_length=10_000),
        default=[],
        max_length=_LISTED,
        help_text="The arguments of the script.",
    )
    environment = serializers.DictField(
        child=Text(allow_blank=True, trim_whitespace=False, max_length=10_000),
        default={},
        help_text="Variables named `SBATCH_*`, which set options.",
    )
    folder = Text(
        allow_blank=True,
        default="",
        trim_whitespace=False,
        max_length=4096,
        help_text="The absolute path of the folder in which it is submitted; empty: unknown.",
    )
