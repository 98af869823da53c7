"""Bodies of requests about the table of Slurm's words."""

from __future__ import annotations

from muster.api.fields import Integer, Shape
from muster.api.jobs.bodies import Values


class TableChange(Shape):
    """The next version of the table."""

    version = Integer(help_text="The version on which the change is based.")
    table = Values(help_text="All words, as `GET` answers them.")
