"""Queries of reports on fairness."""

from muster.api.fields import Choice, Shape, Text, values
from muster.api.usage.bodies import UsageFilter
from scheduler.sim.judge import Parties


class FairnessFilter(UsageFilter):
    """By what finish times are told apart, and as what."""

    by = Text(
        required=False,
        default="week,tenant",
        max_length=100,
        allow_blank=True,
        help_text="Separated by commas: week, tenant, vc, user.",
    )


class PoolFairnessFilter(Shape):
    """The other policy to judge, and the parties to compare."""

    policy = Text(required=False, max_length=40, help_text="Also judge this policy, with its defaults.")
    by = Choice(choices=values(Parties), required=False, default="tenant", help_text="The parties to compare.")
