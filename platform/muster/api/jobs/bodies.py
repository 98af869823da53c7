"""Bodies and queries of requests about jobs, and the jobs that a list, a count or a cancellation selects."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field, extend_schema_serializer
from rest_framework import serializers

from muster.api.fields import Choice, Flag, Integer, Moment, Shape, Text, values
from muster.jobs.spec.spec import PRIORITIES
from scheduler.model.lifecycle import JobState

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
    """Changes of a job. Priority, time and expected can change only while it is queued."""

    name = Text(required=False, max_length=200, help_text="A new name.")
    priority = Choice(choices=PRIORITY_NAMES, required=False, help_text="A new priority; only while the job is queued.")
    time = Text(required=False, allow_null=True, help_text="Such as 90s, 30m, 24h or 7d.")
    expected = Text(required=False, allow_null=True, help_text="Likewise.")
    tags = serializers.DictField(child=Text(), required=False, help_text="New tags, which replace all earlier ones.")


class CloneChanges(Shape):
    """The changes of the spec for the clone."""

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


class JobStateChoice(Choice):
    """A state by its name in the API or on the pages, where a job with GPUs is "running"."""

    def to_internal_value(self, data: Any) -> Any:
        """The state's name in the API."""
        return JobState.ACTIVE.value if data == "running" else super().to_internal_value(data)


class JobSelector(Shape):
    """The selection of jobs; each field narrows it further."""

    state = serializers.ListField(
        child=JobStateChoice(choices=values(JobState)),
        required=False,
        help_text="Any of these; `running` means `active`. In a query: repeated, or separated by commas.",
    )
    vc = Text(required=False, max_length=63, help_text="Only jobs of this virtual cluster.")
    owner = Text(required=False, max_length=150, help_text="Only jobs of the user with this name.")
    tenant = Text(required=False, max_length=63, help_text="Only jobs of this tenant.")
    tag = serializers.ListField(
        child=serializers.RegexField(r"\A[^:]+:.*\Z", max_length=300, error_messages={"invalid": "write key:value"}),
        required=False,
        help_text="key:value; with several, a job must have all of them.",
    )
    search = Text(required=False, max_length=200, help_text="A part of the name, or a number such as 7 or #7.")
    mine = Flag(required=False, help_text="Only the caller's own.")
    ended_after = Moment(required=False, help_text="Only jobs that ended after this moment.")
    group = Integer(required=False, min_value=1, help_text="Only members of the group with this number.")


@extend_schema_serializer(component_name="JobFilter")
class JobFilter(JobSelector):
    """The filters of the list, and which piece of it."""

    members = Flag(
        required=False,
        default=True,
        help_text="false: one row for each group: its first matching member, with the group's progress.",
    )
    limit = Integer(required=False, default=50, min_value=1, max_value=200, help_text="Jobs on one page.")
    cursor = Text(required=False, max_length=200, help_text="`next` of the page before.")


class CancelSelector(JobSelector):
    """The jobs to cancel: at least one field is needed."""

    ids = serializers.ListField(
        child=Integer(min_value=1), required=False, min_length=1, max_length=1000, help_text="Job numbers."
    )


class PageFilter(Shape):
    """The page of a list."""

    limit = Integer(required=False, default=100, min_value=1, max_value=200, help_text="Entries on one page.")
    cursor = Text(required=False, max_length=200, help_text="`next` of the page before.")
