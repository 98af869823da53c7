"""The files that jobs leave."""

from __future__ import annotations

from rest_framework import serializers

from muster.api.shapes.common import Choice, Flag, Integer, Moment, Shape, Text, values
from muster.outputs.models import FileState


class OutputFile(Shape):
    """A file that a rank left, and whether it is here; `state` says why not."""

    id = Integer(help_text="The file's number.")
    attempt = Integer(help_text="The number of the attempt that left it.")
    rank = Integer(help_text="The rank that left it.")
    path = Text(help_text="Below the working folder.")
    size = Integer(help_text="Bytes.")
    sha256 = Text(allow_null=True, help_text="Null until all of it is here.")
    state = Choice(choices=values(FileState), help_text="`kept` if its bytes are stored, else why they are not.")
    at = Moment(help_text="When the platform learned of the file.")


class OutputsSummary(Shape):
    """What can be said of a job's files as a whole."""

    patterns = serializers.ListField(child=Text(), help_text="`outputs` of the spec.")
    kept_files = Integer(help_text="Files that are stored or arriving.")
    kept_bytes = Integer(help_text="Bytes of these files together.")
    most_files = Integer(help_text="How many files of a job are kept.")
    most_bytes = Integer(help_text="How many bytes of a job are kept.")
    kept_until = Moment(allow_null=True, help_text="Null: the job has not ended.")
    pending = Integer(help_text="Ranks of the latest attempt whose files are still to come.")
    lost = Integer(help_text="Ranks whose node was lost with what they left.")
    unnamed = Integer(help_text="Files that were left out and are not in the list.")
    cut_short = Flag(help_text="Some rank's folder held more than could be looked at.")


class OutputFilePage(Shape):
    """A page of files: the latest attempt first, each by rank and path."""

    results = OutputFile(many=True, help_text="The files of this page.")
    next = Text(allow_null=True, help_text="The cursor of the next page; null on the last page.")
    summary = OutputsSummary(help_text="The job's files as a whole.")


class OutputFilter(Shape):
    """Which piece of the list of files."""

    attempt = Integer(required=False, min_value=1, help_text="Of this attempt only.")
    limit = Integer(required=False, default=100, min_value=1, max_value=200, help_text="Files on one page.")
    cursor = Text(required=False, max_length=200, help_text="`next` of the page before.")
