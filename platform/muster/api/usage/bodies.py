"""Queries of reports on usage and delays."""

from __future__ import annotations

from rest_framework import serializers

from muster.api.fields import Choice, Integer, Moment, Shape, Text
from muster.usage.delays import DelayBy
from muster.usage.dimensions import By

FORMATS = [("json", "json"), ("csv", "csv")]
_BY = "Separated by commas: " + ", ".join(one.value for one in By) + "."

_DELAYS_BY = "Separated by commas: " + ", ".join(one.value for one in DelayBy) + "."


class WithFrom(Shape):
    """Has a field `from`, which Python cannot spell as an attribute."""

    def get_fields(self) -> dict[str, serializers.Field]:  # type: ignore[type-arg]
        """The fields of the shape, `from` before them."""
        told = "Seven days before `to` by default, and 400 at most."
        return {"from": Moment(required=False, help_text=told), **super().get_fields()}


class PeriodFilter(WithFrom):
    """The period and the scope of a report; names narrow what the caller may see."""

    to = Moment(required=False, help_text="Default: now.")
    since = Text(required=False, max_length=40, help_text="Instead of `from`: a duration before `to`, such as 7d.")
    tenant = Text(required=False, max_length=63, help_text="Only this tenant.")
    vc = Text(required=False, max_length=63, help_text="Only this virtual cluster.")
    user = Text(required=False, max_length=150, help_text="Only the user with this name.")


class UsageFilter(PeriodFilter):
    """By what GPU-hours are told apart, and as what."""

    by = Text(required=False, default="vc", max_length=100, allow_blank=True, help_text=_BY)
    format = Choice(choices=FORMATS, required=False, help_text="The format; or name it by the header Accept.")


class DelayUsageFilter(PeriodFilter):
    """The columns by which delays are grouped."""

    by = Text(required=False, default="vc", max_length=100, allow_blank=True, help_text=_DELAYS_BY)


class LeastEfficientFilter(PeriodFilter):
    """Of whom, when, and how many."""

    limit = Integer(required=False, default=10, min_value=1, max_value=100, help_text="Number of runs to list.")


BUCKETS = [("day", "day"), ("week", "week")]


class DelaysFilter(WithFrom):
    """Over which time, by day or by week."""

    to = Moment(required=False, help_text="Default: now.")
    since = Text(required=False, max_length=40, help_text="Instead of `from`: a duration before `to`, such as 30d.")
    by = Choice(choices=BUCKETS, required=False, default="day", help_text="Rows by day or by week, in UTC.")
