"""Bodies of requests about a queue."""

from rest_framework import serializers

from muster.api.fields import Flag, Integer, Shape, Text


class QueueFilter(Shape):
    """The page of the queue and its filter."""

    mine = Flag(required=False, default=False, help_text="Only the caller's own jobs.")
    limit = Integer(required=False, default=100, min_value=1, max_value=200, help_text="Jobs on one page.")
    cursor = Text(required=False, help_text="`next` of the page before.")


class QueueOrdering(Shape):
    """Waiting jobs of one owner in the wanted order."""

    jobs = serializers.ListField(
        child=Integer(min_value=1, max_value=(1 << 63) - 1),
        help_text="2 to 1,000 job numbers. These jobs share out the places that they hold.",
    )
