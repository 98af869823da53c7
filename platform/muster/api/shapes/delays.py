"""How long the jobs of a virtual cluster waited, and for what."""

from __future__ import annotations

from rest_framework import serializers

from muster.api.shapes.common import Choice, Integer, Moment, Number, Shape, Text
from muster.api.shapes.usage import WithFrom

BUCKETS = [("day", "day"), ("week", "week")]


class DelaysFilter(WithFrom):
    """Over which time, by day or by week."""

    to = Moment(required=False, help_text="Now by default.")
    since = Text(required=False, max_length=40, help_text="Instead of `from`: a duration before `to`, such as 30d.")
    by = Choice(choices=BUCKETS, required=False, default="day", help_text="Days, or weeks; both in UTC.")

    def _begin(self) -> serializers.Field:  # type: ignore[type-arg]
        return Moment(required=False, help_text="Seven days before `to` by default, and 400 at most.")


class DelaysRow(Shape):
    """The starts of one day or week. The three means together are the mean wait for a start, or so far without one."""

    begins = Text(help_text="The day, or the Monday on which the week begins, such as 2026-11-22.")
    starts = Integer(help_text="Number of starts, screening runs and repeated attempts included.")
    waiting = Integer(help_text="Jobs that wait at `to`; only in the present day or week, when `to` is now.")
    fair_share_s = Number(help_text="Mean wait for quota or a cap, or while the policy served other jobs, s.")
    fragmentation_s = Number(help_text="Mean wait within the quota for GPUs that were not free, or not together, s.")
    other_s = Number(help_text="Mean wait for anything else, such as a pause between attempts, s.")


class Delays(WithFrom):
    """How long the jobs of a virtual cluster waited for their starts in a period."""

    to = Moment(help_text="The end of the period.")
    by = Choice(choices=BUCKETS, help_text="What each row is about.")
    results = DelaysRow(many=True, help_text="Days or weeks in which nothing started, and nothing waits, have no row.")
