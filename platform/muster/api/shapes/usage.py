"""What GPU time was used for, by whom, and what was wasted."""

from __future__ import annotations

from rest_framework import serializers

from muster.api.shapes.common import Choice, Integer, Moment, Number, Shape, Text, values
from muster.usage.dimensions import By
from muster.usage.outcomes import Outcome
from scheduler.diagnosis.efficiency import Grade
from scheduler.model.lifecycle import JobClass, JobState

CATEGORIES = [(name, name) for name in ("user", "ai_engine", "infrastructure", "platform")]
FORMATS = [("json", "json"), ("csv", "csv")]
_BY = "Separated by commas: " + ", ".join(one.value for one in By) + "."


class WithFrom(Shape):
    """Has a field `from`, which Python cannot spell as an attribute."""

    def get_fields(self) -> dict[str, serializers.Field]:  # type: ignore[type-arg]
        """The fields of the shape, `from` before them."""
        return {"from": self._begin(), **super().get_fields()}

    def _begin(self) -> serializers.Field:  # type: ignore[type-arg]
        return Moment(help_text="The beginning of the period.")


class PeriodFilter(WithFrom):
    """Whose GPU-hours over which time; names narrow what the caller may see."""

    to = Moment(required=False, help_text="Now by default.")
    since = Text(required=False, max_length=40, help_text="Instead of `from`: a duration before `to`, such as 7d.")
    tenant = Text(required=False, max_length=63, help_text="Only this tenant.")
    vc = Text(required=False, max_length=63, help_text="Only this virtual cluster.")
    user = Text(required=False, max_length=150, help_text="Only the user with this name.")

    def _begin(self) -> serializers.Field:  # type: ignore[type-arg]
        return Moment(required=False, help_text="Seven days before `to` by default, and 400 at most.")


class UsageFilter(PeriodFilter):
    """By what GPU-hours are told apart, and as what."""

    by = Text(required=False, default="vc", max_length=100, allow_blank=True, help_text=_BY)
    format = Choice(choices=FORMATS, required=False, help_text="Or by the header Accept.")


class UsageTotal(Shape):
    """GPU-hours, and of how many jobs and attempts. A half of a GPU for two hours is one."""

    gpu_hours = Number(help_text="GPU-hours that were held in the period.")
    jobs = Integer(help_text="Number of jobs that held them.")
    attempts = Integer(help_text="Number of attempts that held them.")


class UsageRow(UsageTotal):
    """GPU-hours of those who have the values in common; null is what was not asked for, or has no value."""

    tenant = Text(allow_null=True, help_text="The name of the tenant.")
    vc = Text(allow_null=True, help_text="The name of the virtual cluster.")
    user = Text(allow_null=True, help_text="The name of the jobs' owner.")
    gpu_type = Text(allow_null=True, help_text="The type of the GPUs.")
    day = Text(allow_null=True, help_text="In UTC, such as 2026-11-22.")
    week = Text(allow_null=True, help_text="The Monday on which it begins.")
    state = Choice(choices=values(JobState), allow_null=True, help_text="Of the job, now.")
    outcome = Choice(choices=values(Outcome), allow_null=True, help_text="Of the attempt.")
    failure = Text(allow_null=True, help_text="A class of failures, or how it ended if its log says nothing.")
    category = Choice(
        choices=CATEGORIES,
        allow_null=True,
        help_text="Where the cause of the failure lies; null for attempts that did not fail.",
    )
    retry = serializers.BooleanField(allow_null=True, help_text="Whether it is another try after one that failed.")

    def get_fields(self) -> dict[str, serializers.Field]:  # type: ignore[type-arg]
        """The fields of the shape, and `class`."""
        return {
            "class": Choice(choices=values(JobClass), allow_null=True, help_text="The class of the jobs."),
            **super().get_fields(),
        }


class Usage(WithFrom):
    """GPU-hours of a period: by time first, and the largest first within."""

    to = Moment(help_text="The end of the period.")
    by = serializers.ListField(child=Choice(choices=values(By)), help_text="What the rows are grouped by.")
    total = UsageTotal(help_text="The sum over the period.")
    results = UsageRow(many=True, help_text="One row for each group.")


class OutcomeUsage(UsageTotal):
    """What came of attempts."""

    outcome = Choice(choices=values(Outcome), help_text="What became of these attempts.")


class StateUsage(UsageTotal):
    """What came of jobs."""

    state = Choice(choices=values(JobState), help_text="The present state of these jobs.")


class FailureUsage(UsageTotal):
    """What attempts took that failed in one way."""

    failure = Text(
        help_text="The class of the failure, or the reason why the attempts ended if the log tells no class."
    )
    category = Choice(
        choices=CATEGORIES,
        help_text="Where the cause lies: the user's code, the AI engine, the infrastructure or the platform.",
    )
    outcome = Choice(choices=values(Outcome), help_text="What became of these attempts.")


class RetryUsage(Shape):
    """What attempts took that were another try after one that had failed."""

    gpu_hours = Number(help_text="GPU-hours of all these attempts.")
    attempts = Integer(help_text="Number of these attempts.")
    succeeded_gpu_hours = Number(help_text="GPU-hours of those that succeeded.")
    wasted_gpu_hours = Number(help_text="GPU-hours of those whose work was lost.")


class ScreeningUsage(Shape):
    """The GPU-hours that screening took and saved, by the screening runs that ended in the period."""

    tried = Integer(help_text="Screening runs that began; a job that was screened again counts again.")
    passed = Integer(help_text="Runs that passed.")
    failed = Integer(help_text="Jobs that failed in screening and never took their own GPUs.")
    inconclusive = Integer(help_text="Runs whose failure says nothing about the job.")
    interrupted = Integer(help_text="Runs that a node, an operator or the owner ended.")
    untried = Integer(help_text="Jobs that went on unscreened.")
    trusted = Integer(help_text="Jobs that were not screened, because an equal job passed recently.")
    spent_gpu_hours = Number(help_text="GPU-hours that the runs held in screening pools.")
    saved_gpu_hours = Number(
        help_text="GPU-hours that the failed jobs would have taken until they failed: an estimate."
    )


class Graded(Shape):
    """How well the GPUs were used by the runs that ended in the period and have a grade."""

    jobs = Integer(help_text="Number of graded jobs.")
    gpu_hours = Number(help_text="GPU-hours of their graded runs.")
    idle_gpu_hours = Number(help_text="GPU-hours of these in which the GPUs did nothing.")
    utilization = Number(allow_null=True, help_text="Mean by GPU time, in percent.")


class LeastEfficient(Shape):
    """A run that left much GPU time idle."""

    job = Integer(help_text="The job's number.")
    name = Text(help_text="The job's name.")
    owner = Text(help_text="The username of its owner.")
    vc = Text(help_text="The name of its virtual cluster.")
    ended_at = Moment(help_text="When the run ended.")
    grade = Choice(choices=values(Grade), help_text="How much of its GPUs the job used.")
    utilization = Number(help_text="Mean of all its GPUs, in percent of the time.")
    idle_gpus = Integer(help_text="Number of its GPUs whose mean utilization was below 5 percent.")
    gpu_hours = Number(help_text="GPU-hours of the run.")
    idle_gpu_hours = Number(help_text="GPU-hours of these in which the GPUs did nothing.")
    advice = serializers.ListField(child=Text(), help_text="At most two sentences on how to use fewer resources.")


class LeastEfficientList(WithFrom):
    """The runs that ended in the period and left the most GPU time idle, the worst first."""

    to = Moment(help_text="The end of the period.")
    total = Graded(help_text="The sum over all graded runs of the period.")
    results = LeastEfficient(many=True, help_text="The runs, the most idle GPU time first.")


class LeastEfficientFilter(PeriodFilter):
    """Of whom, when, and how many."""

    limit = Integer(required=False, default=10, min_value=1, max_value=100, help_text="Number of runs to list.")


class Waste(WithFrom):
    """What GPU-hours were for. Wasted are those that failed, whose node was lost, or that begin anew when preempted."""

    to = Moment(help_text="The end of the period.")
    total = UsageTotal(help_text="The sum over the period.")
    wasted_gpu_hours = Number(help_text="GPU-hours of attempts whose work was lost.")
    outcomes = OutcomeUsage(many=True, help_text="By what became of the attempts.")
    states = StateUsage(many=True, help_text="By what became of the jobs, or where they stand.")
    failures = FailureUsage(many=True, help_text="Failed attempts by class of failure.")
    retries = RetryUsage(help_text="Attempts that followed a failed attempt of the same job.")
    screening = ScreeningUsage(allow_null=True, help_text="Null for who may not see all of a tenant.")
