"""Jobs, their attempts and events, and what is answered about them."""

from __future__ import annotations

from typing import Annotated, TypedDict

from muster_client.answers.service import Problem
from muster_client.answers.terms import (
    AttemptState,
    Desired,
    EndReason,
    EstimateSource,
    FailureCategory,
    Grade,
    GradeSilence,
    GroupKind,
    GroupState,
    HoldReason,
    JobSpec,
    JobState,
    Moment,
    Observed,
    Priority,
    RateSource,
    Retry,
    ScreeningVerdict,
    Stage,
    Values,
)


class Hold(TypedDict):
    """Why a waiting job was not placed: one dominant reason, and what would help."""

    reason: Annotated[HoldReason, "The dominant reason why the last scheduling cycle did not place the job."]
    detail: Annotated[str, "The reason as a sentence with figures."]
    helps: Annotated[list[str], "Changes that would let the job start, as sentences."]


_OfClass = TypedDict(
    "_OfClass", {"class": Annotated[str, "A class of failures, or how it ended if its log says nothing."]}
)


class Failure(_OfClass):
    """What is known of why a job failed."""

    title: Annotated[str, "The class in words."]
    category: Annotated[
        FailureCategory, "Where the cause lies: the user's code, the AI engine, the infrastructure or the platform."
    ]
    retry: Annotated[Retry | None, "Whether another try can help; null: nothing tells."]
    line: Annotated[str | None, "The log line that shows the failure."]
    hint: Annotated[str | None, "What to do about it; null if nothing is known."]
    retried: Annotated[str | None, "Which earlier attempt was tried again last, and why."]
    last_words: Annotated[str | None, "What it printed last, where nothing tells why it failed: perhaps not the cause."]


class AttemptFailure(_OfClass):
    """What is known of why an attempt failed."""

    title: Annotated[str, "The class in words."]
    category: Annotated[
        FailureCategory, "Where the cause lies: the user's code, the AI engine, the infrastructure or the platform."
    ]
    retry: Annotated[Retry, "Whether another try can help."]
    confidence: Annotated[float, "From 0 to 1: how strong the evidence is; no probability."]
    line: Annotated[str, "Of the log, that says so; empty if none does."]
    hint: Annotated[str, "What to do about it; empty if nothing is known."]
    rank: Annotated[int | None, "Whose log it is."]


class Idle(TypedDict):
    """A running job whose GPUs all stand idle."""

    since: Annotated[Moment, "When its GPUs became idle."]
    stop_at: Annotated[Moment | None, "When it is stopped if that goes on; null: it is not."]


class Kept(TypedDict):
    """A job that has failed, and what it ran in, which stays until then."""

    until: Annotated[Moment, "When the platform ends the job and frees its GPUs."]
    reason: Annotated[EndReason, "Why its command failed."]
    exit_code: Annotated[int | None, "The exit code of the failed command; null if there is none."]


class JobLinks(TypedDict):
    """Where the rest of a job is."""

    self: Annotated[str, "Path of the job in the API."]
    logs: Annotated[str, "Path of its log."]
    events: Annotated[str, "Path of its events."]
    attempts: Annotated[str, "Path of its attempts."]
    why: Annotated[str, "Path of the explanation of its state."]
    page: Annotated[str, "Path of its page in the web interface."]


class GpuChoice(TypedDict):
    """GPUs that a job accepts on each node."""

    gpu_type: Annotated[str | None, "Null: any one type."]
    gpus: Annotated[int, "On each node."]


class JobSize(GpuChoice):
    """The GPUs, CPUs and memory of a job on each node, in one of its choices."""

    cpus: Annotated[int, "CPUs on each node."]
    memory_mib: Annotated[int, "Memory on each node, in MiB."]


class DryRunSize(JobSize):
    """The same, and where the figures come from."""

    cpus_from: Annotated[str | None, "Such as `share of 2 GPUs on A100 nodes`; null: the spec names its CPUs."]
    memory_from: Annotated[str | None, "Likewise of the memory."]


class GroupProgress(TypedDict):
    """Members of a group by state, and the time of the last change."""

    waiting: Annotated[int, "Members that wait."]
    running: Annotated[int, "Members that have their GPUs."]
    paused: Annotated[int, "Members that their group holds back between two of their attempts."]
    succeeded: Annotated[int, "Members that have succeeded."]
    failed: Annotated[int, "Members that have failed."]
    stopped: Annotated[int, "Members that their group has stopped."]
    cancelled: Annotated[int, "Members that were cancelled by a user."]
    started_at: Annotated[Moment | None, "When the first member started; null: none has."]
    changed_at: Annotated[Moment, "When a member was last submitted or started, or ended."]
    ended_at: Annotated[Moment | None, "When the group ended; null if it has not."]


class GroupOfJob(TypedDict):
    """The group that a job is a member of."""

    id: Annotated[int, "The group's number: that of a sweep or an array."]
    kind: Annotated[GroupKind, "What the group is."]
    name: Annotated[str, "The group's name."]
    state: Annotated[GroupState, "The state of the group."]
    member: Annotated[int, "The job's number among its members, from 1."]
    index: Annotated[int | None, "Its index in an array; null: the group is no array."]
    members: Annotated[int, "How many members the group has."]
    progress: Annotated[
        GroupProgress | None, "Of a row that stands for its group, which lists with `members=false` have; else null."
    ]


class JobInList(TypedDict):
    """A job without its spec."""

    id: Annotated[int, "The job's number."]
    name: Annotated[str, "The job's name; by default the first word of its command."]
    vc: Annotated[str, "The name of its virtual cluster."]
    tenant: Annotated[str, "The name of its tenant."]
    owner: Annotated[str, "The username of its owner."]
    state: Annotated[JobState, "The state of the job as the platform observes it."]
    stage: Annotated[Stage, "Whether the job is in screening, or at its full run."]
    desired: Annotated[Desired, "What its owner wants: `run`, or `stop` once it is cancelled."]
    hold: Annotated[Hold | None, "Why the job waits; null if no scheduling cycle has held it."]
    held: Annotated[bool, "Whether it is held back until it is released."]
    bumped: Annotated[bool, "Whether a manager has put it at the top of its virtual cluster's queue."]
    priority: Annotated[Priority, "Its priority among the jobs of its virtual cluster."]
    tags: Annotated[dict[str, str], "Its tags as names and values."]
    gpu_choices: Annotated[
        list[GpuChoice], "The GPU types that the job accepts, each with a size, in order of preference."
    ]
    gpu_type: Annotated[str | None, "Null: any type, or one of several in `gpu_choices`."]
    gpus: Annotated[int, "On each node, by the first choice."]
    nodes: Annotated[int, "Number of nodes, one rank on each."]
    gpus_total: Annotated[int, "GPUs on all nodes together, by the first choice."]
    group: Annotated[GroupOfJob | None, "Null: not a member of a group, such as a sweep."]
    params: Annotated[Values, "Its parameters by name; empty if it has none."]
    submitted_at: Annotated[Moment, "When the job was submitted."]
    started_at: Annotated[Moment | None, "When it first started; null if it has not."]
    ended_at: Annotated[Moment | None, "When it ended; null if it has not."]
    run_time_s: Annotated[float, "Seconds that its ended attempts ran, from their start to their end."]
    running_since: Annotated[Moment | None, "Since when its live attempt runs; null: none does."]
    exit_code: Annotated[int | None, "The exit code of its command; null while it has none."]
    failure: Annotated[Failure | None, "Why it failed; null unless its state is `failed`."]
    reason: Annotated[EndReason | None, "Why it ended or is being stopped; null if neither is so."]
    reason_detail: Annotated[str | None, "More about the reason, as a sentence; null if there is nothing more."]
    attempts: Annotated[int, "Number of attempts so far."]
    position: Annotated[
        int | None,
        "The place in the virtual cluster's queue, from 1; null while the job is held, and in the answer to its "
        "submission.",
    ]
    idle: Annotated[Idle | None, "Null: its GPUs are at work, or no readings are known."]
    kept: Annotated[Kept | None, "Null: it has not failed, or is not kept."]
    links: Annotated[JobLinks, "Paths of what belongs to the job."]


class GpuUse(TypedDict):
    """What a run used of one of its GPUs; null: not measured."""

    rank: Annotated[int, "The rank that held the GPU."]
    index: Annotated[int, "On its node."]
    utilization: Annotated[float | None, "Mean, in percent of the time."]
    memory_used_mib: Annotated[float | None, "The most."]
    memory_mib: Annotated[int, "The GPU's memory in MiB."]


class Efficiency(TypedDict):
    """What a job used of what it had, by its longest run: a grade, or why there is none."""

    attempt: Annotated[int, "The number of the attempt that was graded: its longest run."]
    grade: Annotated[Grade | None, "How much of its GPUs the job used; null if `silence` says why not."]
    silence: Annotated[GradeSilence | None, "Why there is no grade."]
    utilization: Annotated[float | None, "Mean of all GPUs, in percent; null without a grade."]
    idle_gpus: Annotated[int, "Number of GPUs whose mean utilization was below 5 percent; 0 without a grade."]
    gpu_hours: Annotated[float, "Of the run."]
    idle_gpu_hours: Annotated[float, "Of these its GPUs did nothing; 0 without a grade."]
    gpus: Annotated[list[GpuUse], "Those used least, if there are many."]
    cpus: Annotated[int, "That each rank had."]
    cpu_cores: Annotated[float | None, "That the busiest rank kept busy, on average."]
    memory_mib: Annotated[int, "That each rank had."]
    memory_used_mib: Annotated[float | None, "The most of any rank."]
    advice: Annotated[list[str], "At most two sentences."]


class ScreeningRun(TypedDict):
    """The result of a job's run on a few GPUs of a screening pool, or why there was none."""

    verdict: Annotated[ScreeningVerdict, "The result."]
    detail: Annotated[str, "The verdict as a sentence."]
    attempt: Annotated[int | None, "Its number; null: the job was not screened."]
    failure: Annotated[str, "The class of its failure; empty if it did not fail."]
    line: Annotated[str, "The log line that shows the failure."]
    hint: Annotated[str, "What to do about the failure; empty if nothing is known."]
    gpus_asked: Annotated[int, "GPUs that the job asks for on all nodes together."]
    gpus: Annotated[int, "GPUs of the screening run."]
    waited_s: Annotated[float, "Seconds that the job waited for the run."]
    ran_s: Annotated[float, "Seconds that it ran."]
    spent_gpu_s: Annotated[float, "GPU-seconds that it held in the screening pool."]
    saved_gpu_s: Annotated[
        float, "GPU-seconds that the full gang would have computed until the same failure: an estimate."
    ]
    at: Annotated[Moment, "When it ended."]


class RunTimeEstimate(TypedDict):
    """How long a job is expected to run, from its first start to its end."""

    expected_s: Annotated[float, "Seconds."]
    source: Annotated[
        EstimateSource,
        "Its user, jobs alike that have ended, its limit; doubled: it has run for longer than was expected.",
    ]


class JobRate(TypedDict):
    """How fast a job is on GPUs of one type, as the scheduler is told."""

    gpu_type: Annotated[str, "The GPU type."]
    gpus: Annotated[int, "GPUs of that type, on all nodes."]
    per_s: Annotated[float, "In the job's own unit of progress per second. 0: it does not run there."]
    deviation: Annotated[float | None, "The standard deviation of per_s; null: unknown."]
    source: Annotated[
        RateSource,
        "measured on jobs alike, screened in short runs, claimed by its spec, or estimated from other types.",
    ]


class FinishOnType(TypedDict):
    """The expected start and run time of a waiting job on GPUs of one type."""

    gpu_type: Annotated[str, "The GPU type."]
    gpus: Annotated[int, "GPUs of that type, on all nodes."]
    starts_in_s: Annotated[
        float | None,
        "Seconds until quota and placement allow its start, if running jobs end as expected and nothing else starts; "
        "0: now; null: unknown.",
    ]
    runs_s: Annotated[float | None, "Its remaining run time there, by its rates, in seconds; null: unknown."]
    deviation_s: Annotated[float, "The standard deviation of runs_s, by those of the rates."]
    finishes_in_s: Annotated[float | None, "Seconds until its finish; null: unknown."]


class JobFinish(TypedDict):
    """When a waiting job would finish on each GPU type that it accepts. Jobs ahead of it are not counted."""

    summary: Annotated[str, "Such as: V100 now finishes before A100 in 4 h. Empty: fewer than two finishes are known."]
    detail: Annotated[str, "The start and the finish on each type, in words."]
    types: Annotated[list[FinishOnType], "The earliest finish first, unknown ones last."]


class FailedResize(TypedDict):
    """A resize that did not come back: until its pause is over the job keeps its former size."""

    before: Annotated[int, "GPUs of the former size, on all nodes."]
    wanted: Annotated[int, "GPUs of the size that it did not come back in, on all nodes."]
    at: Annotated[Moment, "When it failed."]
    because: Annotated[str, "Why it failed."]
    until: Annotated[Moment, "When a policy may resize the job again."]


class Job(JobInList):
    """What was asked for, what is wanted of it now, and what became of it."""

    spec: Annotated[JobSpec, "The job spec as it was submitted, with every default written out."]
    sizes: Annotated[
        list[JobSize],
        "What it gets on each node, by GPU type in order of preference. Set when it was submitted, also what its spec"
        " leaves out.",
    ]
    screening_runs: Annotated[list[ScreeningRun], "Oldest first."]
    cloned_from: Annotated[int | None, "The number of the job that this one is a clone of; null if it is none."]
    rates: Annotated[list[JobRate], "Its rates by GPU type, as far as they are known."]
    estimate: Annotated[RunTimeEstimate | None, "Null: nothing is known."]
    finish: Annotated[
        JobFinish | None,
        "Null: it does not wait, or its pool could give it GPUs of one type only. Told by get_job alone.",
    ]
    failed_resize: Annotated[FailedResize | None, "Null: a policy may resize it, or it has one size."]
    efficiency: Annotated[Efficiency | None, "Of a job that has ended, some seconds after."]
    shells: Annotated[bool, "Whether its pool lets `muster shell` into running jobs."]


class SubmittedJob(Job):
    """A job that was accepted."""

    notes: Annotated[
        list[str], "What to know of it before it runs, as sentences: that it asks for no GPU, or names no outputs."
    ]
    warnings: Annotated[
        list[str], "What keeps it from ever starting as things are, where its tenant waits for hardware."
    ]


class JobPage(TypedDict):
    """A page of jobs, newest first; the members of one `group` in the order of their numbers."""

    results: Annotated[list[JobInList], "The jobs of this page."]
    next: Annotated[str | None, "The cursor of the next page; null on the last page."]


class BatchError(TypedDict):
    """Why one of the specs was refused."""

    index: Annotated[int, "The place of the refused spec in the request, from 0."]
    problem: Annotated[Problem, "Why it was refused."]


class BatchAnswer(TypedDict):
    """The jobs that were stored and the specs that were refused."""

    jobs: Annotated[list[JobInList], "The jobs that were stored."]
    errors: Annotated[list[BatchError], "The specs that were refused."]


class Allocation(TypedDict):
    """The hold of one rank on one node."""

    id: Annotated[int, "The allocation's number."]
    node: Annotated[str, "The name of the node."]
    rank: Annotated[int, "The rank, from 0."]
    gpus: Annotated[list[str], "UUIDs."]
    memory_limited: Annotated[bool, "Whether the node enforces the memory limit of jobs."]
    host_network: Annotated[
        str | None, "Which setting gives this rank of a gang, in a container, the host's network; null: none does."
    ]
    observed: Annotated[Observed, "What the node's agent last reported of the rank's processes."]
    exit_code: Annotated[int | None, "The exit code of the rank; null while it has none."]
    log_size: Annotated[int, "Bytes of its log stored so far."]
    log_complete: Annotated[bool, "Whether all of its log is stored."]


class Attempt(TypedDict):
    """One try at running a job."""

    number: Annotated[int, "The attempt's number within the job, from 1."]
    state: Annotated[AttemptState, "The state of the attempt."]
    stage: Annotated[Stage, "Whether it is a screening run or a full run."]
    allocations: Annotated[list[Allocation], "One entry for each rank, by rank."]
    placed_at: Annotated[Moment, "When the scheduler placed it on its nodes."]
    started_at: Annotated[Moment | None, "When it started to run; null if it has not."]
    ended_at: Annotated[Moment | None, "When it ended; null if it has not."]
    exit_code: Annotated[int | None, "The exit code of its command; null while it has none."]
    reason: Annotated[EndReason | None, "Why it ended or is being stopped; null if neither is so."]
    reason_detail: Annotated[str | None, "More about the reason, as a sentence; null if there is nothing more."]
    failure: Annotated[AttemptFailure | None, "Why it failed; null if nothing was diagnosed."]


class AttemptList(TypedDict):
    """The attempts of a job, oldest first."""

    results: Annotated[list[Attempt], "The attempts of this page."]
    next: Annotated[str | None, "The cursor of the next page; null on the last page."]


class JobEvent(TypedDict):
    """Something that happened to a job."""

    id: Annotated[int, "The event's number; later events have larger numbers."]
    at: Annotated[Moment, "When it happened."]
    kind: Annotated[str, "What happened, such as `job.submitted`."]
    actor: Annotated[str, "Who or what caused it: a username, or a part of the platform."]
    data: Annotated[Values, "Details; the keys depend on the kind."]


class JobEventPage(TypedDict):
    """A page of events, oldest first."""

    results: Annotated[list[JobEvent], "The events of this page."]
    next: Annotated[str | None, "The cursor of the next page; null on the last page."]


class StateCount(TypedDict):
    """How many jobs are in a state, and how many GPUs they ask for."""

    state: Annotated[JobState, "The state of these jobs."]
    jobs: Annotated[int, "Number of jobs."]
    gpus: Annotated[int, "GPUs that these jobs ask for."]


class JobCount(TypedDict):
    """How many jobs match."""

    jobs: Annotated[int, "Number of jobs that match."]
    gpus: Annotated[int, "That these jobs ask for."]
    states: Annotated[list[StateCount], "By state; a state without jobs is left out."]
    cancellable: Annotated[int, "Of these, jobs that have not ended and that the caller may cancel."]


class NotCancelled(TypedDict):
    """A job that could not be cancelled."""

    id: Annotated[int, "The job's number."]
    problem: Annotated[Problem, "Why it could not be cancelled."]


class CancelAnswer(TypedDict):
    """What became of the selected jobs."""

    cancelled: Annotated[list[int], "Jobs that have left the queue or are being stopped."]
    refused: Annotated[list[NotCancelled], "Jobs that could not be cancelled."]
    remaining: Annotated[int, "Matching jobs beyond the limit of one request; send the request again for them."]
