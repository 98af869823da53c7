"""Bodies of requests about sweeps."""

from muster.api.fields import Choice, Flag, Integer, Shape, Text, values
from scheduler.model.lifecycle import GroupState


class SweepFilter(Shape):
    """The filter of a list of sweeps."""

    state = Choice(choices=values(GroupState), required=False, help_text="Sweeps in this state.")
    mine = Flag(required=False, default=False, help_text="Only the caller's own.")
    limit = Integer(required=False, default=50, min_value=1, max_value=200, help_text="Sweeps on a page.")
    cursor = Text(required=False, help_text="`next` of the page before.")
