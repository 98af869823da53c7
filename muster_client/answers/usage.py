"""What GPU time was used for, by whom, and what was wasted."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from muster_client.answers.terms import FailureCategory, Grade, JobClass, JobState, Moment, UsageBy, UsageOutcome

_OfPeriod = TypedDict("_OfPeriod", {"from": Annotated[Moment, "The beginning of the period."]})


class AnswerOfPeriod(_OfPeriod):
    """The two ends of a period."""

    to: Annotated[Moment, "The end of the period."]


class UsageTotal(TypedDict):
    """GPU-hours, and of how many jobs and attempts. A half of a GPU for two hours is one."""

    gpu_hours: Annotated[float, "GPU-hours that were held in the period."]
    jobs: Annotated[int, "Number of jobs that held them."]
    attempts: Annotated[int, "Number of attempts that held them."]


_OfClass = TypedDict("_OfClass", {"class": Annotated[JobClass | None, "The class of the jobs."]})


class UsageRow(_OfClass, UsageTotal):
    """GPU-hours of those who have the values in common; null is what was not asked for, or has no value."""

    tenant: Annotated[str | None, "The name of the tenant."]
    vc: Annotated[str | None, "The name of the virtual cluster."]
    user: Annotated[str | None, "The name of the jobs' owner."]
    gpu_type: Annotated[str | None, "The type of the GPUs."]
    day: Annotated[str | None, "In UTC, such as 2026-11-22."]
    week: Annotated[str | None, "The Monday on which it begins."]
    state: Annotated[JobState | None, "Of the job, now."]
    outcome: Annotated[UsageOutcome | None, "Of the attempt."]
    failure: Annotated[str | None, "A class of failures, or how it ended if its log says nothing."]
    category: Annotated[
        FailureCategory | None, "Where the cause of the failure lies; null for attempts that did not fail."
    ]
    retry: Annotated[bool | None, "Whether it is another try after one that failed."]


class Usage(AnswerOfPeriod):
    """GPU-hours of a period: by time first, and the largest first within."""

    by: Annotated[list[UsageBy], "What the rows are grouped by."]
    total: Annotated[UsageTotal, "The sum over the period."]
    results: Annotated[list[UsageRow], "One row for each group."]


class OutcomeUsage(UsageTotal):
    """What came of attempts."""

    outcome: Annotated[UsageOutcome, "What became of these attempts."]


class StateUsage(UsageTotal):
    """What came of jobs."""

    state: Annotated[JobState, "The present state of these jobs."]


class FailureUsage(UsageTotal):
    """What attempts took that failed in one way."""

    failure: Annotated[str, "The class of the failure, or the reason why the attempts ended if the log tells no class."]
    category: Annotated[
        FailureCategory, "Where the cause lies: the user's code, the AI engine, the infrastructure or the platform."
    ]
    outcome: Annotated[UsageOutcome, "What became of these attempts."]


class RetryUsage(TypedDict):
    """What attempts took that were another try after one that had failed."""

    gpu_hours: Annotated[float, "GPU-hours of all these attempts."]
    attempts: Annotated[int, "Number of these attempts."]
    succeeded_gpu_hours: Annotated[float, "GPU-hours of those that succeeded."]
    wasted_gpu_hours: Annotated[float, "GPU-hours of those whose work was lost."]


class ScreeningUsage(TypedDict):
    """The GPU-hours that screening took and saved, by the screening runs that ended in the period."""

    tried: Annotated[int, "Screening runs that began; a job that was screened again counts again."]
    passed: Annotated[int, "Runs that passed."]
    failed: Annotated[int, "Jobs that failed in screening and never took their own GPUs."]
    inconclusive: Annotated[int, "Runs whose failure says nothing about the job."]
    interrupted: Annotated[int, "Runs that a node, an operator or the owner ended."]
    untried: Annotated[int, "Jobs that went on unscreened."]
    trusted: Annotated[int, "Jobs that were not screened, because an equal job passed recently."]
    spent_gpu_hours: Annotated[float, "GPU-hours that the runs held in screening pools."]
    saved_gpu_hours: Annotated[float, "GPU-hours that the failed jobs would have taken until they failed: an estimate."]


class Graded(TypedDict):
    """How well the GPUs were used by the runs that ended in the period and have a grade."""

    jobs: Annotated[int, "Number of graded jobs."]
    gpu_hours: Annotated[float, "GPU-hours of their graded runs."]
    idle_gpu_hours: Annotated[float, "GPU-hours of these in which the GPUs did nothing."]
    utilization: Annotated[float | None, "Mean by GPU time, in percent."]


class LeastEfficient(TypedDict):
    """A run that left much GPU time idle."""

    job: Annotated[int, "The job's number."]
    name: Annotated[str, "The job's name."]
    owner: Annotated[str, "The username of its owner."]
    vc: Annotated[str, "The name of its virtual cluster."]
    ended_at: Annotated[Moment, "When the run ended."]
    grade: Annotated[Grade, "How much of its GPUs the job used."]
    utilization: Annotated[float, "Mean of all its GPUs, in percent of the time."]
    idle_gpus: Annotated[int, "Number of its GPUs whose mean utilization was below 5 percent."]
    gpu_hours: Annotated[float, "GPU-hours of the run."]
    idle_gpu_hours: Annotated[float, "GPU-hours of these in which the GPUs did nothing."]
    advice: Annotated[list[str], "At most two sentences on how to use fewer resources."]


class LeastEfficientList(AnswerOfPeriod):
    """The runs that ended in the period and left the most GPU time idle, the worst first."""

    total: Annotated[Graded, "The sum over all graded runs of the period."]
    results: Annotated[list[LeastEfficient], "The runs, the most idle GPU time first."]


class Waste(AnswerOfPeriod):
    """What GPU-hours were for. Wasted are those that failed, whose node was lost, or that begin anew when preempted."""

    total: Annotated[UsageTotal, "The sum over the period."]
    wasted_gpu_hours: Annotated[float, "GPU-hours of attempts whose work was lost."]
    outcomes: Annotated[list[OutcomeUsage], "By what became of the attempts."]
    states: Annotated[list[StateUsage], "By what became of the jobs, or where they stand."]
    failures: Annotated[list[FailureUsage], "Failed attempts by class of failure."]
    retries: Annotated[RetryUsage, "Attempts that followed a failed attempt of the same job."]
    screening: Annotated[ScreeningUsage | None, "Null for who may not see all of a tenant."]


class DelaysRow(TypedDict):
    """The starts of one day or week. The three means together are the mean wait for a start, or so far without one."""

    begins: Annotated[str, "The day, or the Monday on which the week begins, such as 2026-11-22."]
    starts: Annotated[int, "Number of starts, screening runs and repeated attempts included."]
    waiting: Annotated[int, "Jobs that wait at `to`; only in the present day or week, when `to` is now."]
    fair_share_s: Annotated[float, "Mean wait for quota or a cap, or while the policy served other jobs, s."]
    fragmentation_s: Annotated[float, "Mean wait within the quota for GPUs that were not free, or not together, s."]
    other_s: Annotated[float, "Mean wait for anything else, such as a pause between attempts, s."]


class Delays(AnswerOfPeriod):
    """How long the jobs of a virtual cluster waited for their starts in a period."""

    by: Annotated[Literal["day", "week"], "What each row is about."]
    results: Annotated[list[DelaysRow], "Days or weeks in which nothing started, and nothing waits, have no row."]
