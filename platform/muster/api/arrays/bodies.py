"""Bodies of requests about arrays."""

from muster.api.fields import Choice, Flag, Integer, Shape, Text, values
from muster.arrays.selectors import STATES
from scheduler.model.lifecycle import GroupState


class ArrayFilter(Shape):
    """The filter of a list of arrays."""

    state = Choice(choices=values(GroupState), required=False, help_text="Arrays in this state.")
    mine = Flag(required=False, default=False, help_text="Only the caller's own.")
    limit = Integer(required=False, default=50, min_value=1, max_value=200, help_text="Arrays on a page.")
    cursor = Text(required=False, help_text="`next` of the page before.")


class ArrayMemberFilter(Shape):
    """The filter of an array's members."""

    state = Choice(choices=[(name, name) for name in STATES], required=False, help_text="Members in this state.")
    indices = Text(required=False, max_length=1000, help_text="Members with these indices, such as 1,3,5-7.")
    limit = Integer(required=False, default=1000, min_value=1, max_value=1000, help_text="Members on a page.")
    cursor = Text(required=False, help_text="`next` of the page before.")


class ArrayIndices(Shape):
    """The members of an array to act on."""

    indices = Text(
        required=False,
        allow_null=True,
        default=None,
        max_length=1000,
        help_text="Indices such as 1,3,5-7. Default: all.",
    )
