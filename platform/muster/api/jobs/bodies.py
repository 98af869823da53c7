"""What requests about jobs say."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from muster.api.fields import Choice, Shape, Text
from muster.jobs.spec.spec import PRIORITIES

SPEC = {"$ref": "#/components/schemas/JobSpec"}
ANY_VALUES = {"type": "object", "additionalProperties": {}}
PRIORITY_NAMES = [(name, name) for name in PRIORITIES]


@extend_schema_field(SPEC)
class SpecField(serializers.JSONField):
    """The job spec, whose schema stands apart."""


@extend_schema_field(ANY_VALUES)
class Values(serializers.JSONField):
    """An object whose keys depend on its kind."""


class JobEdit(Shape):
    """What of a job can be changed. Priority, time and expected only while it is queued."""

    name = Text(required=False, max_length=200, help_text="A new name.")
    priority = Choice(choices=PRIORITY_NAMES, required=False, help_text="A new priority; only while the job is queued.")
    time = Text(required=False, allow_null=True, help_text="Such as 90s, 30m, 24h or 7d.")
    expected = Text(required=False, allow_null=True, help_text="Likewise.")
    tags = serializers.DictField(child=Text(), required=False, help_text="New tags, which replace all earlier ones.")


class CloneChanges(Shape):
    """What of the spec is different in the clone."""

    spec = Values(required=False, default=dict, help_text="Keys of the spec with their new values; null removes a key.")

    def validate_spec(self, value: Any) -> Any:
        """The changes, which are a mapping."""
        if not isinstance(value, dict):
            raise serializers.ValidationError("write a mapping of keys of the spec to values")
        return value


class Batch(Shape):
    """Up to 1,000 specs."""

    jobs = serializers.ListField(
        child=SpecField(), min_length=1, max_length=1000, help_text="The specs of the jobs to submit."
    )
