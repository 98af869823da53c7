"""Queries of metrics."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from muster.api.fields import Integer, Moment, Shape
from muster.common.errors import Invalid

MAX_STEP_S = 86_400


class MetricsFilter(Shape):
    """The window and the step. The answer has 500 steps at most, and no finer ones than are still kept."""

    to = Moment(required=False, help_text="Default: now.")
    step = Integer(
        required=False, default=0, min_value=0, max_value=MAX_STEP_S, help_text="The step, in seconds at least."
    )

    def get_fields(self) -> dict[str, serializers.Field]:  # type: ignore[type-arg]
        """The fields above, and `from`."""
        return {"from": Moment(required=False, help_text="Default: an hour before `to`."), **super().get_fields()}

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """The times in order."""
        if "from" in attrs and "to" in attrs and attrs["from"] >= attrs["to"]:
            raise Invalid.field("from", "it must be before `to`")
        return attrs


class JobMetricsFilter(MetricsFilter):
    """The attempt and the window; by default the latest attempt from its start to its end."""

    attempt = Integer(
        required=False, min_value=1, max_value=1 << 31, help_text="The attempt's number; the latest by default."
    )

    def get_fields(self) -> dict[str, serializers.Field]:  # type: ignore[type-arg]
        """The fields above, with what is the default here."""
        return {
            **super().get_fields(),
            "from": Moment(required=False, help_text="Default: when the attempt was placed."),
            "to": Moment(required=False, help_text="Default: when the attempt ended, or now."),
        }
