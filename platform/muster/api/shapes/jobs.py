"""Jobs, their attempts and events, and what is answered about them."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from muster.api.shapes.common import Choice, Flag, Integer, Moment, Number, Problem, Shape, Text, values
from muster.jobs.spec.spec import PRIORITIES
from scheduler.diagnosis.efficiency import Grade, NoGradeReason
from scheduler.diagnosis.screening import ScreeningVerdict
from scheduler.model.lifecycle import (
    AttemptState,
    Desired,
    GroupKind,
    GroupState,
    HoldReason,
    JobState,
    Observed,
    Reason,
    Stage,
)
from scheduler.predict.estimate import Source
from scheduler.predict.rates import RateSource

SPEC = {"$ref": "#/components/schemas/JobSpec"}
ANY_VALUES = {"type": "object", "additionalProperties": {}}
PRIORITY_NAMES = [(name, name) for name in PRIORITIES]


@extend_schema_field(SPEC)
class SpecField(serializers.JSONField):
    """The job spec, whose schema stands apart."""


@extend_schema_field(ANY_VALUES)
class Values(serializers.JSONField):
    """An object whose keys depend on its kind."""


class Hold(Shape):
    """Why a waiting job was not placed: one dominant reason, and what would help."""

    reason = Choice(
        choices=values(HoldReason), help_text="The dominant reason why the last scheduling cycle did not place the job."
    )
    detail = Text(help_text="The reason as a sentence with figures.")
    helps = serializers.ListField(child=Text(), help_text="Changes that would let the job start, as sentences.")


_BLAMED = [(name, name) for name in ("user", "ai_engine", "infrastructure", "platform")]
_ADVICE = [(name, name) for name in ("no", "yes", "maybe", "elsewhere")]


class _OfClass(Shape):
    """Has a field `class`, which Python cannot spell as an attribute."""

    def get_fields(self) -> dict[str, serializers.Field]:  # type: ignore[type-arg]
        """The fields of the shape, and `class`."""
        told = "A class of failures, or how it ended if its log says nothing."
        return {"class": Text(help_text=told), **super().get_fields()}


class Failure(_OfClass):
    """What is known of why a job failed."""

    title = Text(help_text="The class in words.")
    category = Choice(
        choices=_BLAMED,
        help_text="Where the cause lies: the user's code, the AI engine, the infrastructure or the platform.",
    )
    retry = Choice(choices=_ADVICE, allow_null=True, help_text="Whether another try can help; null: nothing tells.")
    line = Text(allow_null=True, help_text="The log line that shows the failure.")
    hint = Text(allow_null=True, help_text="What to do about it; null if nothing is known.")
    retried = Text(allow_null=True, help_text="Which earlier attempt was tried again last, and why.")
    last_words = Text(
        allow_null=True, help_text="What it printed last, where nothing tells why it failed: perhaps not the cause."
    )


class AttemptFailure(_OfClass):
    """What is known of why an attempt failed."""

    title = Text(help_text="The class in words.")
    category = Choice(
        choices=_BLAMED,
        help_text="Where the cause lies: the user's code, the AI engine, the infrastructure or the platform.",
    )
    retry = Choice(choices=_ADVICE, help_text="Whether another try can help.")
    confidence = serializers.FloatField(help_text="From 0 to 1: how strong the evidence is; no probability.")
    line = Text(help_text="Of the log, that says so; empty if none does.")
    hint = Text(help_text="What to do about it; empty if nothing is known.")
    rank = Integer(allow_null=True, help_text="Whose log it is.")


class Idle(Shape):
    """A running job whose GPUs all stand idle."""

    since = Moment(help_text="When its GPUs became idle.")
    stop_at = Moment(allow_null=True, help_text="When it is stopped if that goes on; null: it is not.")


class Kept(Shape):
    """A job that has failed, and what it ran in, which stays until then."""

    until = Moment(help_text="When the platform ends the job and frees its GPUs.")
    reason = Choice(choices=values(Reason), help_text="Why its command failed.")
    exit_code = Integer(allow_null=True, help_text="The exit code of the failed command; null if there is none.")


class JobLinks(Shape):
    """Where the rest of a job is."""

    self = Text(help_text="Path of the job in the API.")
    logs = Text(help_text="Path of its log.")
    events = Text(help_text="Path of its events.")
    attempts = Text(help_text="Path of its attempts.")
    why = Text(help_text="Path of the explanation of its state.")
    page = Text(help_text="Path of its page in the web interface.")


class GpuChoice(Shape):
    """GPUs that a job accepts on each node."""

    gpu_type = Text(allow_null=True, help_text="Null: any one type.")
    gpus = Integer(help_text="On each node.")


class JobSize(GpuChoice):
    """The GPUs, CPUs and memory of a job on each node, in one of its choices."""

    cpus = Integer(help_text="CPUs on each node.")
    memory_mib = Integer(help_text="Memory on each node, in MiB.")


class DryRunSize(JobSize):
    """The same, and where the figures come from."""

    cpus_from = Text(
        allow_null=True, help_text="Such as `share of 2 GPUs on A100 nodes`; null: the spec names its CPUs."
    )
    memory_from = Text(allow_null=True, help_text="Likewise of the memory.")


class GroupProgress(Shape):
    """Members of a group by state, and the time of the last change."""

    waiting = Integer(help_text="Members that wait.")
    running = Integer(help_text="Members that have their GPUs.")
    paused = Integer(help_text="Members that their group holds back between two of their attempts.")
    succeeded = Integer(help_text="Members that have succeeded.")
    failed = Integer(help_text="Members that have failed.")
    stopped = Integer(help_text="Members that their group has stopped.")
    cancelled = Integer(help_text="Members that were cancelled by a user.")
    started_at = Moment(allow_null=True, help_text="When the first member started; null: none has.")
    changed_at = Moment(help_text="When a member was last submitted or started, or ended.")
    ended_at = Moment(allow_null=True, help_text="When the group ended; null if it has not.")


class GroupOfJob(Shape):
    """The group that a job is a member of."""

    id = Integer(help_text="The group's number: of a sweep the sweep's.")
    kind = Choice(choices=values(GroupKind), help_text="What the group is.")
    name = Text(help_text="The group's name.")
    state = Choice(choices=values(GroupState), help_text="The state of the group.")
    member = Integer(help_text="The job's number among its members, from 1.")
    members = Integer(help_text="How many members the group has.")
    progress = GroupProgress(
        allow_null=True,
        help_text="Of a row that stands for its group, which lists with `members=false` have; else null.",
    )


class JobInList(Shape):
    """A job without its spec."""

    id = Integer(help_text="The job's number.")
    name = Text(help_text="The job's name; by default the first word of its command.")
    vc = Text(help_text="The name of its virtual cluster.")
    tenant = Text(help_text="The name of its tenant.")
    owner = Text(help_text="The username of its owner.")
    state = Choice(choices=values(JobState), help_text="The state of the job as the platform observes it.")
    stage = Choice(choices=values(Stage), help_text="Whether the job is in screening, or at its full run.")
    desired = Choice(choices=values(Desired), help_text="What its owner wants: `run`, or `stop` once it is cancelled.")
    hold = Hold(allow_null=True, help_text="Why the job waits; null if no scheduling cycle has held it.")
    held = Flag(help_text="Whether it is held back until it is released.")
    bumped = Flag(help_text="Whether a manager has put it at the top of its virtual cluster's queue.")
    priority = Choice(choices=PRIORITY_NAMES, help_text="Its priority among the jobs of its virtual cluster.")
    tags = serializers.DictField(child=Text(), help_text="Its tags as names and values.")
    gpu_choices = GpuChoice(
        many=True, help_text="The GPU types that the job accepts, each with a size, in order of preference."
    )
    gpu_type = Text(allow_null=True, help_text="Null: any type, or one of several in `gpu_choices`.")
    gpus = Integer(help_text="On each node, by the first choice.")
    nodes = Integer(help_text="Number of nodes, one rank on each.")
    gpus_total = Integer(help_text="GPUs on all nodes together, by the first choice.")
    group = GroupOfJob(allow_null=True, help_text="Null: not a member of a group, such as a sweep.")
    params = Values(help_text="Its parameters by name; empty if it has none.")
    submitted_at = Moment(help_text="When the job was submitted.")
    started_at = Moment(allow_null=True, help_text="When it first started; null if it has not.")
    ended_at = Moment(allow_null=True, help_text="When it ended; null if it has not.")
    run_time_s = Number(help_text="Seconds that its ended attempts ran, from their start to their end.")
    running_since = Moment(allow_null=True, help_text="Since when its live attempt runs; null: none does.")
    exit_code = Integer(allow_null=True, help_text="The exit code of its command; null while it has none.")
    failure = Failure(allow_null=True, help_text="Why it failed; null unless its state is `failed`.")
    reason = Choice(
        choices=values(Reason), allow_null=True, help_text="Why it ended or is being stopped; null if neither is so."
    )
    reason_detail = Text(
        allow_null=True, help_text="More about the reason, as a sentence; null if there is nothing more."
    )
    attempts = Integer(help_text="Number of attempts so far.")
    position = Integer(
        allow_null=True,
        help_text="The place in the virtual cluster's queue, from 1; null while the job is held, and in the answer to "
        "its submission.",
    )
    idle = Idle(allow_null=True, help_text="Null: its GPUs are at work, or no readings are known.")
    kept = Kept(allow_null=True, help_text="Null: it has not failed, or is not kept.")
    links = JobLinks(help_text="Paths of what belongs to the job.")


class GpuUse(Shape):
    """What a run used of one of its GPUs; null: not measured."""

    rank = Integer(help_text="The rank that held the GPU.")
    index = Integer(help_text="On its node.")
    utilization = Number(allow_null=True, help_text="Mean, in percent of the time.")
    memory_used_mib = Number(allow_null=True, help_text="The most.")
    memory_mib = Integer(help_text="The GPU's memory in MiB.")


class Efficiency(Shape):
    """What a job used of what it had, by its longest run: a grade, or why there is none."""

    attempt = Integer(help_text="The number of the attempt that was graded: its longest run.")
    grade = Choice(
        choices=values(Grade),
        allow_null=True,
        help_text="How much of its GPUs the job used; null if `silence` says why not.",
    )
    silence = Choice(choices=values(NoGradeReason), allow_null=True, help_text="Why there is no grade.")
    utilization = Number(allow_null=True, help_text="Mean of all GPUs, in percent; null without a grade.")
    idle_gpus = Integer(help_text="Number of GPUs whose mean utilization was below 5 percent; 0 without a grade.")
    gpu_hours = Number(help_text="Of the run.")
    idle_gpu_hours = Number(help_text="Of these its GPUs did nothing; 0 without a grade.")
    gpus = GpuUse(many=True, help_text="Those used least, if there are many.")
    cpus = Integer(help_text="That each rank had.")
    cpu_cores = Number(allow_null=True, help_text="That the busiest rank kept busy, on average.")
    memory_mib = Integer(help_text="That each rank had.")
    memory_used_mib = Number(allow_null=True, help_text="The most of any rank.")
    advice = serializers.ListField(child=Text(), help_text="At most two sentences.")


class ScreeningRun(Shape):
    """The result of a job's run on a few GPUs of a screening pool, or why there was none."""

    verdict = Choice(choices=values(ScreeningVerdict), help_text="The result.")
    detail = Text(help_text="The verdict as a sentence.")
    attempt = Integer(allow_null=True, help_text="Its number; null: the job was not screened.")
    failure = Text(help_text="The class of its failure; empty if it did not fail.")
    line = Text(help_text="The log line that shows the failure.")
    hint = Text(help_text="What to do about the failure; empty if nothing is known.")
    gpus_asked = Integer(help_text="GPUs that the job asks for on all nodes together.")
    gpus = Integer(help_text="GPUs of the screening run.")
    waited_s = serializers.FloatField(help_text="Seconds that the job waited for the run.")
    ran_s = serializers.FloatField(help_text="Seconds that it ran.")
    spent_gpu_s = serializers.FloatField(help_text="GPU-seconds that it held in the screening pool.")
    saved_gpu_s = serializers.FloatField(
        help_text="GPU-seconds that the full gang would have computed until the same failure: an estimate."
    )
    at = Moment(help_text="When it ended.")


class RunTimeEstimate(Shape):
    """How long a job is expected to run, from its first start to its end."""

    expected_s = Number(help_text="Seconds.")
    source = Choice(  # type: ignore[assignment]
        choices=values(Source),
        help_text="Its user, jobs alike that have ended, its limit; doubled: it has run for longer than was expected.",
    )


class JobRate(Shape):
    """How fast a job is on GPUs of one type, as the scheduler is told."""

    gpu_type = Text(help_text="The GPU type.")
    gpus = Integer(help_text="GPUs of that type, on all nodes.")
    per_s = Number(help_text="In the job's own unit of progress per second. 0: it does not run there.")
    deviation = Number(allow_null=True, help_text="The standard deviation of per_s; null: unknown.")
    source = Choice(  # type: ignore[assignment]
        choices=values(RateSource),
        help_text="measured on jobs alike, screened in short runs, claimed by its spec, or estimated from other types.",
    )


class FinishOnType(Shape):
    """The expected start and run time of a waiting job on GPUs of one type."""

    gpu_type = Text(help_text="The GPU type.")
    gpus = Integer(help_text="GPUs of that type, on all nodes.")
    starts_in_s = Number(
        allow_null=True,
        help_text="Seconds until quota and placement allow its start, if running jobs end as expected and nothing else "
        "starts; 0: now; null: unknown.",
    )
    runs_s = Number(allow_null=True, help_text="Its remaining run time there, by its rates, in seconds; null: unknown.")
    deviation_s = Number(help_text="The standard deviation of runs_s, by those of the rates.")
    finishes_in_s = Number(allow_null=True, help_text="Seconds until its finish; null: unknown.")


class JobFinish(Shape):
    """When a waiting job would finish on each GPU type that it accepts. Jobs ahead of it are not counted."""

    summary = Text(help_text="Such as: V100 now finishes before A100 in 4 h. Empty: fewer than two finishes are known.")
    detail = Text(help_text="The start and the finish on each type, in words.")
    types = FinishOnType(many=True, help_text="The earliest finish first, unknown ones last.")


class FailedResize(Shape):
    """A resize that did not come back: until its pause is over the job keeps its former size."""

    before = Integer(help_text="GPUs of the former size, on all nodes.")
    wanted = Integer(help_text="GPUs of the size that it did not come back in, on all nodes.")
    at = Moment(help_text="When it failed.")
    because = Text(help_text="Why it failed.")
    until = Moment(help_text="When a policy may resize the job again.")


class Job(JobInList):
    """What was asked for, what is wanted of it now, and what became of it."""

    spec = SpecField(help_text="The job spec as it was submitted, with every default written out.")
    sizes = JobSize(
        many=True,
        help_text="What it gets on each node, by GPU type in order of preference. Set when it was submitted, also what "
        "its spec leaves out.",
    )
    screening_runs = ScreeningRun(many=True, help_text="Oldest first.")
    cloned_from = Integer(
        allow_null=True, help_text="The number of the job that this one is a clone of; null if it is none."
    )
    rates = JobRate(many=True, help_text="Its rates by GPU type, as far as they are known.")
    estimate = RunTimeEstimate(allow_null=True, help_text="Null: nothing is known.")
    finish = JobFinish(
        allow_null=True,
        help_text="Null: it does not wait, or its pool could give it GPUs of one type only. Told by get_job alone.",
    )
    failed_resize = FailedResize(allow_null=True, help_text="Null: a policy may resize it, or it has one size.")
    efficiency = Efficiency(allow_null=True, help_text="Of a job that has ended, some seconds after.")
    shells = Flag(help_text="Whether its pool lets `muster shell` into running jobs.")


NOTES = "What to know of it before it runs, as sentences: that it asks for no GPU, or names no outputs."


class SubmittedJob(Job):
    """A job that was accepted."""

    notes = serializers.ListField(child=Text(), help_text=NOTES)

    warnings = serializers.ListField(
        child=Text(), help_text="What keeps it from ever starting as things are, where its tenant waits for hardware."
    )


class JobPage(Shape):
    """A page of jobs, newest first; the members of one `group` in the order of their numbers."""

    results = JobInList(many=True, help_text="The jobs of this page.")
    next = Text(allow_null=True, help_text="The cursor of the next page; null on the last page.")


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


class BatchError(Shape):
    """Why one of the specs was refused."""

    index = Integer(help_text="The place of the refused spec in the request, from 0.")
    problem = Problem(help_text="Why it was refused.")


class BatchAnswer(Shape):
    """The jobs that were stored and the specs that were refused."""

    jobs = JobInList(many=True, help_text="The jobs that were stored.")
    errors = BatchError(many=True, help_text="The specs that were refused.")  # type: ignore[assignment]


class Allocation(Shape):
    """The hold of one rank on one node."""

    id = Integer(help_text="The allocation's number.")
    node = Text(help_text="The name of the node.")
    rank = Integer(help_text="The rank, from 0.")
    gpus = serializers.ListField(child=Text(), help_text="UUIDs.")
    memory_limited = Flag(help_text="Whether the node enforces the memory limit of jobs.")
    host_network = Text(
        allow_null=True,
        help_text="Which setting gives this rank of a gang, in a container, the host's network; null: none does.",
    )
    observed = Choice(
        choices=values(Observed), help_text="What the node's agent last reported of the rank's processes."
    )
    exit_code = Integer(allow_null=True, help_text="The exit code of the rank; null while it has none.")
    log_size = Integer(help_text="Bytes of its log stored so far.")
    log_complete = Flag(help_text="Whether all of its log is stored.")


class Attempt(Shape):
    """One try at running a job."""

    number = Integer(help_text="The attempt's number within the job, from 1.")
    state = Choice(choices=values(AttemptState), help_text="The state of the attempt.")
    stage = Choice(choices=values(Stage), help_text="Whether it is a screening run or a full run.")
    allocations = Allocation(many=True, help_text="One entry for each rank, by rank.")
    placed_at = Moment(help_text="When the scheduler placed it on its nodes.")
    started_at = Moment(allow_null=True, help_text="When it started to run; null if it has not.")
    ended_at = Moment(allow_null=True, help_text="When it ended; null if it has not.")
    exit_code = Integer(allow_null=True, help_text="The exit code of its command; null while it has none.")
    reason = Choice(
        choices=values(Reason), allow_null=True, help_text="Why it ended or is being stopped; null if neither is so."
    )
    reason_detail = Text(
        allow_null=True, help_text="More about the reason, as a sentence; null if there is nothing more."
    )
    failure = AttemptFailure(allow_null=True, help_text="Why it failed; null if nothing was diagnosed.")


class AttemptList(Shape):
    """The attempts of a job, oldest first."""

    results = Attempt(many=True, help_text="The attempts of this page.")
    next = Text(allow_null=True, help_text="The cursor of the next page; null on the last page.")


class JobEvent(Shape):
    """Something that happened to a job."""

    id = Integer(help_text="The event's number; later events have larger numbers.")
    at = Moment(help_text="When it happened.")
    kind = Text(help_text="What happened, such as `job.submitted`.")
    actor = Text(help_text="Who or what caused it: a username, or a part of the platform.")
    data = Values(help_text="Details; the keys depend on the kind.")  # type: ignore[assignment]


class JobEventPage(Shape):
    """A page of events, oldest first."""

    results = JobEvent(many=True, help_text="The events of this page.")
    next = Text(allow_null=True, help_text="The cursor of the next page; null on the last page.")
