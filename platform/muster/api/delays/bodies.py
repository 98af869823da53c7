"""Which delays are asked for."""

from muster.api.fields import Choice, Moment, Text
from muster.api.usage.bodies import WithFrom

BUCKETS = [("day", "day"), ("week", "week")]


class DelaysFilter(WithFrom):
    """Over which time, by day or by week."""

    to = Moment(required=False, help_text="Now by default.")
    since = Text(required=False, max_length=40, help_text="Instead of `from`: a duration before `to`, such as 30d.")
    by = Choice(choices=BUCKETS, required=False, default="day", help_text="Days, or weeks; both in UTC.")
