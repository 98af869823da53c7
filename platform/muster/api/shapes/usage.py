"""What GPU time was used for, by whom, and what was wasted."""

from __future__ import annotations

from rest_framework import serializers

from muster.api.shapes.common import Choice, Integer, Moment, Number, Shape, Text, values
from muster.usage.dimensions import By
from muster.usage.outcomes import Outcome
from scheduler.efficiency import Grade
from scheduler.lifecycle import JobClass, JobState

CATEGORIES = [(name, name) for name in ("user", "ai_engine", "infrastructure", "platform")]
FORMATS = [("json", "json"), ("csv", "csv")]
_BY = "Separated by commas: " + ", ".join(one.value for one in By) + "."


class _WithFrom(Shape):
    """Has a field `from`, which Python cannot spell as an attribute."""

    def get_fields(self) -> dict[str, serializers.Field]:  # type: ignore[type-arg]
        """The fields of the shape, `from` before them."""
        return {"from": self._begin(), **super().get_fields()}

    def _begin(self) -> serializers.Field:  # type: ignore[type-arg]
        return Moment()


class PeriodFilter(_WithFrom):
    """Whose GPU-hours over which time; names narrow what the caller may see."""

    to = Moment(required=False, help_text="Now by default.")
    since = Text(required=False, max_length=40, help_text="Instead of `from`: a duration before `to`, such as 7d.")
    tenant = Text(required=False, max_length=63)
    vc = Text(required=False, max_length=63)
    user = Text(required=False, max_length=150)

    def _begin(self) -> serializers.Field:  # type: ignore[type-arg]
        return Moment(required=False, help_text="Seven days before `to` by default, and 400 at most.")


class UsageFilter(PeriodFilter):
    """By what GPU-hours are told apart, and as what."""

    by = Text(required=False, default="vc", max_length=100, allow_blank=True, help_text=_BY)
    format = Choice(choices=FORMATS, required=False, help_text="Or by the header Accept.")


class UsageTotal(Shape):
    """GPU-hours, and of how many jobs and attempts. A half of a GPU for two hours is one."""

    gpu_hours = Number()
    jobs = Integer()
    attempts = Integer()


class UsageRow(UsageTotal):
    """GPU-hours of those who have the values in common; null is what was not asked for, or has no value."""

    tenant = Text(allow_null=True)
    vc = Text(allow_null=True)
    user = Text(allow_null=True)
    gpu_type = Text(allow_null=True)
    day = Text(allow_null=True, help_text="In UTC, such as 2026-11-22.")
    week = Text(allow_null=True, help_text="The Monday on which it begins.")
    state = Choice(choices=values(JobState), allow_null=True, help_text="Of the job, now.")
    outcome = Choice(choices=values(Outcome), allow_null=True, help_text="Of the attempt.")
    failure = Text(allow_null=True, help_text="A class of failures, or how it ended if its log says nothing.")
    category = Choice(choices=CATEGORIES, allow_null=True)
    retry = serializers.BooleanField(allow_null=True, help_text="Whether it is another try after one that failed.")

    def get_fields(self) -> dict[str, serializers.Field]:  # type: ignore[type-arg]
        """The fields of the shape, and `class`."""
        return {"class": Choice(choices=values(JobClass), allow_null=True), **super().get_fields()}


class Usage(_WithFrom):
    """GPU-hours of a period: by time first, and the largest first within."""

    to = Moment()
    by = serializers.ListField(child=Choice(choices=values(By)))
    total = UsageTotal()
    results = UsageRow(many=True)


class OutcomeUsage(UsageTotal):
    """What came of attempts."""

    outcome = Choice(choices=values(Outcome))


class StateUsage(UsageTotal):
    """What came of jobs."""

    state = Choice(choices=values(JobState))


class FailureUsage(UsageTotal):
    """What attempts took that failed in one way."""

    failure = Text()
    category = Choice(choices=CATEGORIES)
    outcome = Choice(choices=values(Outcome))


class RetryUsage(Shape):
    """What attempts took that were another try after one that had failed."""

    gpu_hours = Number()
    attempts = Integer()
    succeeded_gpu_hours = Number()
    wasted_gpu_hours = Number()


class ScreeningUsage(Shape):
    """What trials on screening pools took and saved, of those that were over in the period."""

    tried = Integer()
    passed = Integer()
    failed = Integer(help_text="Jobs that failed there and never took their GPUs.")
    inconclusive = Integer()
    interrupted = Integer()
    untried = Integer(help_text="Jobs that went on without a trial.")
    trusted = Integer(help_text="Jobs that went on without, as the same had passed of late.")
    spent_gpu_hours = Number()
    saved_gpu_hours = Number(help_text="What those that failed would have taken until they failed: an estimate.")


class Graded(Shape):
    """How well the GPUs were used by the runs that ended in the period and have a grade."""

    jobs = Integer()
    gpu_hours = Number()
    idle_gpu_hours = Number()
    utilization = Number(allow_null=True, help_text="Mean by GPU time, in percent.")


class LeastEfficient(Shape):
    """A run that left much GPU time idle."""

    job = Integer()
    name = Text()
    owner = Text()
    vc = Text()
    ended_at = Moment()
    grade = Choice(choices=values(Grade))
    utilization = Number()
    idle_gpus = Integer()
    gpu_hours = Number()
    idle_gpu_hours = Number()
    advice = serializers.ListField(child=Text())


class LeastEfficientList(_WithFrom):
    """The runs that ended in the period and left the most GPU time idle, the worst first."""

    to = Moment()
    total = Graded()
    results = LeastEfficient(many=True)


class LeastEfficientFilter(PeriodFilter):
    """Of whom, when, and how many."""

    limit = Integer(required=False, default=10, min_value=1, max_value=100)


class Waste(_WithFrom):
    """What GPU-hours were for. Wasted are those that failed, whose node was lost, or that begin anew when preempted."""

    to = Moment()
    total = UsageTotal()
    wasted_gpu_hours = Number()
    outcomes = OutcomeUsage(many=True)
    states = StateUsage(many=True, help_text="By what became of the jobs, or where they stand.")
    failures = FailureUsage(many=True)
    retries = RetryUsage()
    screening = ScreeningUsage(allow_null=True, help_text="Null for who may not see all of a tenant.")
