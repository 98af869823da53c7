"""The use of GPU time by purpose and user, and its waste."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from muster_client.answers.terms import (
    Delay,
    DelaysBy,
    FailureCategory,
    Grade,
    JobClass,
    JobState,
    Moment,
    UsageBy,
    UsageOutcome,
)

_OfPeriod = TypedDict("_OfPeriod", {"from": Annotated[Moment, "The beginning of the period."]})


class AnswerOfPeriod(_OfPeriod):
    """The two ends of a period."""

    to: Annotated[Moment, "The end of the period."]


class UsageTotal(TypedDict):
    """GPU-hours, and the number of jobs and attempts. Half of a GPU for two hours is one GPU-hour."""

    gpu_hours: Annotated[float, "GPU-hours that were held in the period."]
    jobs: Annotated[int, "Number of jobs that held them."]
    attempts: Annotated[int, "Number of attempts that held them."]


_OfClass = TypedDict("_OfClass", {"class": Annotated[JobClass | None, "The class of the jobs."]})


class UsageRow(_OfClass, UsageTotal):
    """GPU-hours of one group; null: a column that was not asked for, or has no value."""

    tenant: Annotated[str | None, "The name of the tenant."]
    vc: Annotated[str | None, "The name of the virtual cluster."]
    user: Annotated[str | None, "The name of the jobs' owner."]
    gpu_type: Annotated[str | None, "The type of the GPUs."]
    day: Annotated[str | None, "In UTC, such as 2026-11-22."]
    week: Annotated[str | None, "The Monday on which it begins."]
    state: Annotated[JobState | None, "The present state of the jobs."]
    outcome: Annotated[UsageOutcome | None, "The outcome of the attempts."]
    failure: Annotated[str | None, "A class of failures, or how it ended if its log says nothing."]
    category: Annotated[FailureCategory | None, "The cause of the failure; null for attempts that did not fail."]
    retry: Annotated[bool | None, "Whether it is another try after one that failed."]


class Usage(AnswerOfPeriod):
    """GPU-hours of a period, ordered by time and then by size."""

    by: Annotated[list[UsageBy], "The columns that the rows are grouped by."]
    total: Annotated[UsageTotal, "The sum over the period."]
    results: Annotated[list[UsageRow], "One row for each group."]


class OutcomeUsage(UsageTotal):
    """GPU-hours of attempts with one outcome."""

    outcome: Annotated[UsageOutcome, "The outcome of these attempts."]


class StateUsage(UsageTotal):
    """GPU-hours of jobs in one state."""

    state: Annotated[JobState, "The present state of these jobs."]


class FailureUsage(UsageTotal):
    """GPU-hours of attempts that failed in one way."""

    failure: Annotated[str, "The class of the failure, or the reason of the end if the log shows no class."]
    category: Annotated[
        FailureCategory, "The cause: the user's code, the AI engine, the infrastructure or the platform."
    ]
    outcome: Annotated[UsageOutcome, "The outcome of these attempts."]


class RetryUsage(TypedDict):
    """GPU-hours of attempts that repeated a failed one."""

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
    """The use of GPUs by graded runs that ended in the period."""

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
    grade: Annotated[Grade, "The grade of its GPU use."]
    utilization: Annotated[float, "Mean utilization of all its GPUs, in percent of the time."]
    idle_gpus: Annotated[int, "Number of its GPUs whose mean utilization was below 5 percent."]
    gpu_hours: Annotated[float, "GPU-hours of the run."]
    idle_gpu_hours: Annotated[float, "GPU-hours of these in which the GPUs did nothing."]
    advice: Annotated[list[str], "At most two sentences on how to use fewer resources."]


class LeastEfficientList(AnswerOfPeriod):
    """The runs that ended in the period and left the most GPU time idle, the worst first."""

    total: Annotated[Graded, "The sum over all graded runs of the period."]
    results: Annotated[list[LeastEfficient], "The runs, the most idle GPU time first."]


class Waste(AnswerOfPeriod):
    """GPU-hours by result. Wasted: of attempts that failed, lost their node, or begin anew after a preemption."""

    total: Annotated[UsageTotal, "The sum over the period."]
    wasted_gpu_hours: Annotated[float, "GPU-hours of attempts whose work was lost."]
    outcomes: Annotated[list[OutcomeUsage], "GPU-hours by outcome of the attempts."]
    states: Annotated[list[StateUsage], "GPU-hours by the present state of the jobs."]
    failures: Annotated[list[FailureUsage], "Failed attempts by class of failure."]
    retries: Annotated[RetryUsage, "Attempts that followed a failed attempt of the same job."]
    screening: Annotated[ScreeningUsage | None, "GPU-hours of screening; null if you may not see a whole tenant."]


class DelaySums(TypedDict):
    """A wait for a start by its delays, s; where several hold at once, the first counts."""

    not_eligible_s: Annotated[float, "Not eligible: its begin time, other jobs, a hold, its group, or a pause."]
    fair_share_s: Annotated[float, "The quota or a cap had no room for it."]
    capacity_s: Annotated[float, "Fewer GPUs were free than it asks for."]
    apart_s: Annotated[float, "Fragmentation: enough GPUs were free, but not together, or without its CPUs and memory."]
    order_s: Annotated[float, "It would have fitted, and the policy kept the GPUs for others."]
    fragmentation_s: Annotated[float, "The sum of the last three: the wait for GPUs within the quota."]
    other_s: Annotated[float, "Anything else, such as the wait for the first decision."]


class DelayFigures(DelaySums):
    """The mean wait over starts and waiting jobs, by delays."""

    starts: Annotated[int, "Number of starts, screening runs and repeated attempts included."]
    waiting: Annotated[int, "Jobs that wait at `to`, with their wait so far; only where `to` is now."]


class DelaysRow(DelayFigures):
    """The starts of one day or week."""

    begins: Annotated[str, "The day, or the Monday on which the week begins, such as 2026-11-22."]


class Delays(AnswerOfPeriod):
    """The time that the jobs of a virtual cluster waited for their starts in a period."""

    by: Annotated[Literal["day", "week"], "The period of each row: a day or a week."]
    results: Annotated[list[DelaysRow], "One row for each day or week; without starts and waiting jobs there is none."]


class DelayUsageRow(DelayFigures):
    """The starts of one group; null: a column that was not asked for."""

    tenant: Annotated[str | None, "The name of the tenant."]
    vc: Annotated[str | None, "The name of the virtual cluster."]
    user: Annotated[str | None, "The name of the jobs' owner."]
    size: Annotated[str | None, "The GPUs of the job: 1, 2-4, 5-8 or >8; jobs without GPUs count with 1."]
    day: Annotated[str | None, "In UTC, such as 2026-11-22."]
    week: Annotated[str | None, "The Monday on which it begins."]


class DelayUsage(AnswerOfPeriod):
    """The time that jobs waited for their starts in a period, ordered by time and then by name or size."""

    by: Annotated[list[DelaysBy], "The columns that the rows are grouped by."]
    total: Annotated[DelayFigures, "The mean over the period."]
    results: Annotated[list[DelayUsageRow], "One row for each group."]


class JobWait(DelaySums):
    """A wait of a job for one start."""

    attempt: Annotated[int | None, "The number of the attempt for which it waited; null: it still waits."]
    begins: Annotated[Moment, "Its submission, or its return to the queue."]
    ends: Annotated[Moment, "When it was placed, or now."]


class JobDelays(TypedDict):
    """The waits of a job before each of its attempts, and the present one if it waits; in order."""

    delay: Annotated[Delay | None, "The delay that it suffers at present; null: none, or not known yet."]
    waits: Annotated[list[JobWait], "One for each start."]
