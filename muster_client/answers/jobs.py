"""Jobs, their attempts and events, and what is answered about them."""

from __future__ import annotations

from typing import Annotated, TypedDict

from muster_client.answers.service import Problem
from muster_client.answers.terms import (
    AttemptState,
    DependencyKind,
    DependencyState,
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
    """The reason why a waiting job was not placed, and changes that would help."""

    reason: Annotated[HoldReason, "The dominant reason why the last scheduling cycle did not place the job."]
    detail: Annotated[str, "The reason as a sentence with figures."]
    helps: Annotated[list[str], "Changes that would let the job start, as sentences."]


_OfClass = TypedDict(
    "_OfClass", {"class": Annotated[str, "A class of failures, or how it ended if its log says nothing."]}
)


class Failure(_OfClass):
    """The diagnosis of a failed job."""

    title: Annotated[str, "The class in words."]
    category: Annotated[
        FailureCategory, "The cause: the user's code, the AI engine, the infrastructure or the platform."
    ]
    retry: Annotated[Retry | None, "Whether another try can help; null: unknown."]
    line: Annotated[str | None, "The log line that shows the failure."]
    hint: Annotated[str | None, "What to do about it; null if nothing is known."]
    retried: Annotated[str | None, "The latest earlier attempt that was retried, and the reason."]
    last_words: Annotated[str | None, "Its last output, if the cause is unknown; it may not show the cause."]


class AttemptFailure(_OfClass):
    """The diagnosis of a failed attempt."""

    title: Annotated[str, "The class in words."]
    category: Annotated[
        FailureCategory, "The cause: the user's code, the AI engine, the infrastructure or the platform."
    ]
    retry: Annotated[Retry, "Whether another try can help."]
    confidence: Annotated[float, "From 0 to 1: how strong the evidence is; no probability."]
    line: Annotated[str, "The log line that shows the failure; empty if none does."]
    hint: Annotated[str, "What to do about it; empty if nothing is known."]
    rank: Annotated[int | None, "The rank with that log line."]


class Idle(TypedDict):
    """A running job whose GPUs are all idle."""

    since: Annotated[Moment, "When its GPUs became idle."]
    stop_at: Annotated[Moment | None, "When it is stopped if its GPUs stay idle; null: never."]


class Kept(TypedDict):
    """A failed job whose GPUs and files are kept until `until`."""

    until: Annotated[Moment, "When the platform ends the job and frees its GPUs."]
    reason: Annotated[EndReason, "Why its command failed."]
    exit_code: Annotated[int | None, "The exit code of the failed command; null if there is none."]


class JobLinks(TypedDict):
    """Paths to other parts of a job."""

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
    """The GPUs, CPUs and memory of a job on each node, and the sources of these figures."""

    cpus_from: Annotated[str | None, "Such as `share of 2 GPUs on A100 nodes`; null: the spec names its CPUs."]
    memory_from: Annotated[str | None, "The same for the memory."]


class GroupProgress(TypedDict):
    """Members of a group by state, and the time of the last change."""

    waiting: Annotated[int, "Members that wait."]
    running: Annotated[int, "Members that have their GPUs."]
    paused: Annotated[int, "Members that their group holds between two attempts."]
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
    kind: Annotated[GroupKind, "The kind of the group."]
    name: Annotated[str, "The group's name."]
    state: Annotated[GroupState, "The state of the group."]
    member: Annotated[int, "The job's number among its members, from 1."]
    index: Annotated[int | None, "Its index in an array; null: the group is no array."]
    members: Annotated[int, "The number of its members."]
    progress: Annotated[GroupProgress | None, "The group's progress, in lists with `members=false`; else null."]


class JobInList(TypedDict):
    """A job without its spec."""

    id: Annotated[int, "The job's number."]
    name: Annotated[str, "The job's name; by default the first word of its command."]
    vc: Annotated[str, "The name of its virtual cluster."]
    tenant: Annotated[str, "The name of its tenant."]
    owner: Annotated[str, "The username of its owner."]
    state: Annotated[JobState, "The state of the job as the platform observes it."]
    stage: Annotated[Stage, "Whether the job is in screening, or at its full run."]
    desired: Annotated[Desired, "The owner's wish: `run`, or `stop` once it is cancelled."]
    hold: Annotated[Hold | None, "Why the job waits; null if no scheduling cycle has held it."]
    held: Annotated[bool, "Whether it is on hold until it is released."]
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
    running_since: Annotated[Moment | None, "When its live attempt started; null: none runs."]
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
    """A run's use of one of its GPUs; null: not measured."""

    rank: Annotated[int, "The rank that held the GPU."]
    index: Annotated[int, "The GPU's index on its node."]
    utilization: Annotated[float | None, "Mean utilization, in percent of the time."]
    memory_used_mib: Annotated[float | None, "The largest memory use, in MiB."]
    memory_mib: Annotated[int, "The GPU's memory in MiB."]


class Efficiency(TypedDict):
    """A job's use of its resources in its longest run: a grade, or the reason why there is none."""

    attempt: Annotated[int, "The number of the attempt that was graded: its longest run."]
    grade: Annotated[Grade | None, "The grade of its GPU use; null if `silence` says why not."]
    silence: Annotated[GradeSilence | None, "Why there is no grade."]
    utilization: Annotated[float | None, "Mean utilization of all GPUs, in percent; null without a grade."]
    idle_gpus: Annotated[int, "Number of GPUs whose mean utilization was below 5 percent; 0 without a grade."]
    gpu_hours: Annotated[float, "GPU-hours of the run."]
    idle_gpu_hours: Annotated[float, "GPU-hours of the run in which GPUs were idle; 0 without a grade."]
    gpus: Annotated[list[GpuUse], "The use of each GPU; of many GPUs the least used ones."]
    cpus: Annotated[int, "CPUs of each rank."]
    cpu_cores: Annotated[float | None, "Mean number of CPU cores that the busiest rank used."]
    memory_mib: Annotated[int, "Memory of each rank, in MiB."]
    memory_used_mib: Annotated[float | None, "The largest memory use of a rank, in MiB."]
    advice: Annotated[list[str], "Advice in at most two sentences."]


class ScreeningRun(TypedDict):
    """The result of a job's run on a few GPUs of a screening pool, or why there was none."""

    verdict: Annotated[ScreeningVerdict, "The result."]
    detail: Annotated[str, "The verdict as a sentence."]
    attempt: Annotated[int | None, "The number of the attempt; null: the job was not screened."]
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
    """The expected run time of a job, from its first start to its end."""

    expected_s: Annotated[float, "Seconds."]
    p10_s: Annotated[float | None, "It runs for less than this with a probability of 10 %, seconds; null: unknown."]
    p90_s: Annotated[float | None, "It runs for less than this with a probability of 90 %, seconds; null: unknown."]
    source: Annotated[
        EstimateSource,
        "Its user's estimate, by that user's record; a model trained on jobs that have ended; similar jobs that have"
        " ended; its time limit; its sweep; its steps so far. Outlived: it runs for longer than nine in ten such jobs.",
    ]


class JobRate(TypedDict):
    """The speed of a job on GPUs of one type, as the scheduler knows it."""

    gpu_type: Annotated[str, "The GPU type."]
    gpus: Annotated[int, "GPUs of that type, on all nodes."]
    per_s: Annotated[float, "Progress per second, in the job's own unit. 0: it does not run there."]
    deviation: Annotated[float | None, "The standard deviation of per_s; null: unknown."]
    source: Annotated[
        RateSource,
        "Measured on similar jobs, screened in short runs, claimed by its spec, or estimated from other types.",
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
    """The expected finish of a waiting job on each GPU type that it accepts. Jobs ahead of it are not counted."""

    summary: Annotated[str, "Such as: V100 now finishes before A100 in 4 h. Empty: fewer than two finishes are known."]
    detail: Annotated[str, "The start and the finish on each type, in words."]
    types: Annotated[list[FinishOnType], "The earliest finish first, unknown ones last."]


class FailedResize(TypedDict):
    """A resize after which the job did not start again; it keeps its former size until `until`."""

    before: Annotated[int, "GPUs of the former size, on all nodes."]
    wanted: Annotated[int, "GPUs of the size in which it did not start, on all nodes."]
    at: Annotated[Moment, "When it failed."]
    because: Annotated[str, "Why it failed."]
    until: Annotated[Moment, "When a policy may resize the job again."]


class Job(JobInList):
    """A job: its spec, the wishes of its owner and its state."""

    spec: Annotated[JobSpec, "The job spec as it was submitted, with every default written out."]
    sizes: Annotated[
        list[JobSize],
        "Its GPUs, CPUs and memory on each node, by GPU type in order of preference. Set at its submission.",
    ]
    screening_runs: Annotated[list[ScreeningRun], "Its screening runs, oldest first."]
    cloned_from: Annotated[int | None, "The number of the job that this one is a clone of; null if it is none."]
    rates: Annotated[list[JobRate], "Its rates by GPU type, as far as they are known."]
    estimate: Annotated[RunTimeEstimate | None, "Null: nothing is known."]
    finish: Annotated[
        JobFinish | None,
        "Null: it does not wait, or its pool has one GPU type for it. Only in the answer to get_job.",
    ]
    failed_resize: Annotated[FailedResize | None, "Null: a policy may resize it, or it has one size."]
    efficiency: Annotated[Efficiency | None, "The use of its resources; null until some seconds after its end."]
    shells: Annotated[bool, "Whether its pool lets `muster shell` into running jobs."]


class SubmittedJob(Job):
    """A job that was accepted."""

    notes: Annotated[list[str], "Warnings as sentences, such as that the job asks for no GPU, or names no outputs."]
    warnings: Annotated[list[str], "Reasons why it cannot start until hardware is added."]


class JobPage(TypedDict):
    """A page of jobs, newest first; the members of one `group` in the order of their numbers."""

    results: Annotated[list[JobInList], "The jobs of this page."]
    next: Annotated[str | None, "The cursor of the next page; null on the last page."]


class BatchError(TypedDict):
    """The reason why one of the specs was refused."""

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
        str | None, "The setting that gives this rank of a gang, in a container, the host's network; null: none does."
    ]
    observed: Annotated[Observed, "The state of the rank's processes, by the agent's last report."]
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


class DependencyNode(TypedDict):
    """A job or a group in the graph of dependencies."""

    id: Annotated[int, "The number of the job or group."]
    kind: Annotated[GroupKind | None, "The kind of the group; null: it is one job."]
    name: Annotated[str, "The name of the job or group."]
    state: Annotated[JobState, "The state of the job; a group that has not ended is active."]
    waits: Annotated[bool, "Whether it still waits for others."]


class DependencyEdge(TypedDict):
    """A dependency between two nodes of the graph."""

    source: Annotated[int, "The awaited node."]
    target: Annotated[int, "The waiting node."]
    kind: Annotated[DependencyKind, "The awaited event of the source."]
    state: Annotated[DependencyState, "Whether the dependency is open, met, or can never be met."]


class DependencyGraph(TypedDict):
    """The jobs and groups that a job waits for, and those that wait for it, also through others."""

    middle: Annotated[int, "The node of the job: its own number, or that of its group."]
    nodes: Annotated[list[DependencyNode], "The nodes, older ones first."]
    edges: Annotated[list[DependencyEdge], "The dependencies between the nodes."]
    whole: Annotated[bool, "Whether the graph is complete; otherwise the nodes farthest from the job are left out."]


class JobEvent(TypedDict):
    """Something that happened to a job."""

    id: Annotated[int, "The event's number; later events have larger numbers."]
    at: Annotated[Moment, "When it happened."]
    kind: Annotated[str, "The kind of the event, such as `job.submitted`."]
    actor: Annotated[str, "The cause: a username, or a part of the platform."]
    data: Annotated[Values, "Details; the keys depend on the kind."]


class JobEventPage(TypedDict):
    """A page of events, oldest first."""

    results: Annotated[list[JobEvent], "The events of this page."]
    next: Annotated[str | None, "The cursor of the next page; null on the last page."]


class StateCount(TypedDict):
    """The number of jobs in a state, and of GPUs that they ask for."""

    state: Annotated[JobState, "The state of these jobs."]
    jobs: Annotated[int, "Number of jobs."]
    gpus: Annotated[int, "GPUs that these jobs ask for."]


class JobCount(TypedDict):
    """The number of matching jobs."""

    jobs: Annotated[int, "Number of jobs that match."]
    gpus: Annotated[int, "GPUs that these jobs ask for."]
    states: Annotated[list[StateCount], "The counts by state; states without jobs are left out."]
    cancellable: Annotated[int, "Of these, jobs that have not ended and that the caller may cancel."]


class NotCancelled(TypedDict):
    """A job that could not be cancelled."""

    id: Annotated[int, "The job's number."]
    problem: Annotated[Problem, "Why it could not be cancelled."]


class CancelAnswer(TypedDict):
    """The result of cancelling the selected jobs."""

    cancelled: Annotated[list[int], "Jobs that have left the queue or are being stopped."]
    refused: Annotated[list[NotCancelled], "Jobs that could not be cancelled."]
    remaining: Annotated[int, "Matching jobs beyond the limit of one request; send the request again for them."]
