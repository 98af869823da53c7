"""The queue of a virtual cluster, and what is done with it."""

from __future__ import annotations

from rest_framework import serializers

from muster.api.shapes.common import Choice, Flag, Integer, Moment, Number, Shape, Text, values
from muster.api.shapes.jobs import JobInList, Values
from scheduler.model.lifecycle import JobClass


class QueueEntry(JobInList):
    """A waiting job."""

    evidence = Values(help_text="The figures behind `hold`; the keys depend on its reason. Empty without a hold.")
    waited_s = Number(help_text="Seconds since it was submitted, or came back to the queue.")
    starts_at = Moment(allow_null=True, help_text="By when the policy expects to start it; null if it does not say.")
    movable = Flag(help_text="Whether the caller may change its place among its owner's jobs.")

    def get_fields(self) -> dict[str, serializers.Field]:  # type: ignore[type-arg]
        """The fields of the shape, and `class`."""
        told = "Jobs exchange places within their class only."
        return {"class": Choice(choices=values(JobClass), help_text=told), **super().get_fields()}


class Queue(Shape):
    """A page of the jobs that wait in a virtual cluster, in the order of the policy; held jobs come last."""

    vc = Text(help_text="The name of the virtual cluster.")
    pool = Text(help_text="The name of its pool.")
    policy = Text(help_text="The policy whose order this is.")
    planner = Text(allow_blank=True, help_text="The planner that decides; empty: the pool's own.")
    ordered_at = Moment(allow_null=True, help_text="When the order last changed; null before the first cycle.")
    waiting = Integer(help_text="How many jobs wait, without the held ones.")
    held = Integer(help_text="How many jobs are held.")
    manages = Flag(help_text="Whether the caller may bump jobs, and act on other members' jobs.")
    results = QueueEntry(many=True, help_text="The jobs of the page.")
    next = Text(allow_null=True, help_text="The cursor of the next page; null on the last one.")


class QueueFilter(Shape):
    """Which jobs of the queue to list."""

    mine = Flag(required=False, default=False, help_text="Only the caller's own jobs.")
    limit = Integer(required=False, default=100, min_value=1, max_value=200, help_text="Jobs on one page.")
    cursor = Text(required=False, help_text="From `next` of the page before.")


class QueueOrdering(Shape):
    """Waiting jobs of one owner in the wanted order."""

    jobs = serializers.ListField(
        child=Integer(min_value=1, max_value=(1 << 63) - 1),
        help_text="2 to 1,000 job numbers. These jobs share out the places that they hold.",
    )


class HeldMembers(Shape):
    """How many members of a sweep were held or released."""

    members = Integer(help_text="Members that changed.")
