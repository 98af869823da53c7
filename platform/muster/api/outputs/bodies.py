"""Queries of files."""

from muster.api.fields import Integer, Shape, Text


class OutputFilter(Shape):
    """The page of the list of files."""

    attempt = Integer(required=False, min_value=1, help_text="Only files of this attempt.")
    limit = Integer(required=False, default=100, min_value=1, max_value=200, help_text="Files on one page.")
    cursor = Text(required=False, max_length=200, help_text="`next` of the page before.")
