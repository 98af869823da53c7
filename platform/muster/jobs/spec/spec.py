"""The job spec: one flat document, the same in YAML and in the body of the REST API. Strict about every key."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from muster.common.errors import FieldError, Invalid, unknown_key
from muster.jobs.spec.after import After, Begin, begins_at
from muster.jobs.spec.batch import Batch, problems_of
from muster.jobs.spec.gpus import MAX_GPUS, AnyOf, GpuChoice, Gpus, WithMemory, choices_of
from muster.jobs.spec.mounts import PATTERN, plain_mount, require_apart
from muster.jobs.spec.notify import Channel, Kind, read_notify
from muster.jobs.spec.other_systems import answer_for
from muster.jobs.spec.spec_errors import message_of
from muster.jobs.spec.spec_texts import (
    MAX_NODES,
    Duration,
    Image,
    Moment,
    Name,
    NodeNames,
    Output,
    Params,
    Size,
    Text,
    Workdir,
    checked_env,
    checked_labels,
    checked_tags,
)
from muster.jobs.spec.throughput import Throughput
from muster.jobs.spec.units import parse_duration_s, parse_moment, parse_size_mib
from nodeagent.protocol.messages import MAX_MOUNTS
from scheduler.diagnosis.idle import Rule
from scheduler.diagnosis.screening import Mode
from scheduler.model.lifecycle import JobClass, Locality, RuntimeNeed
from scheduler.model.reasons import RetryOn
from scheduler.model.request import Over

PRIORITIES = {"low": 0, "normal": 10, "high": 20, "urgent": 30}
MAX_CPUS = 4096
MAX_COMMAND_CHARS = 65_536
MAX_OUTPUTS = 20


def _without_preemptions(on: object) -> object:
    if isinstance(on, list) and "preempted" in on:
        raise ValueError(
            "leave preempted out: a preempted job is always queued again, and that uses up no retry; "
            "preemptible: false prevents preemptions"
        )
    return on


def _idle_time(text: str) -> str:
    # Utilisation is judged minute by minute; minutes are kept for longer than a week by hardly anybody.
    if not 120 <= parse_duration_s(text) <= 7 * 86_400:
        raise ValueError("write a time from 2m to 7d")
    return text


def _share(value: object) -> object:
    if value == "slice":
        raise ValueError("not supported yet: slice; write never or pack")
    return value


def _notify(value: object) -> object:
    return None if value is None else read_notify(value)


def _code(value: object) -> object:
    if isinstance(value, str):
        raise ValueError("a folder is packed by the `muster` command; over the API, upload it and send its digest")
    if isinstance(value, dict) and "git" in value:
        raise ValueError(answer_for("code.git"))
    return value


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Code(_Strict):
    """The source of the job's code."""

    upload: str = Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of an uploaded archive.")


class Retry(_Strict):
    """The number of automatic retries, and the ends that lead to one."""

    max: int = Field(default=3, ge=0, le=100, description="The largest number of retries.")
    on: Annotated[list[Annotated[RetryOn, Field(strict=False)]], BeforeValidator(_without_preemptions)] = Field(
        default=[RetryOn.INFRASTRUCTURE, RetryOn.NODE_LOST],
        max_length=10,
        description="Kinds of end after which the job is retried.",
    )


class Checkpoint(_Strict):
    """The way to ask the job to save its state and exit."""

    signal: Literal["TERM", "INT", "USR1", "USR2", "HUP"] = Field(
        default="TERM", description="The signal that asks the job to save and exit."
    )
    grace: Duration = Field(default="30s", description="Time between the signal and SIGKILL, such as 30s or 5m.")


class Elastic(_Strict):
    """The sizes between which a policy may resize the job; `gpus` and `nodes` are the size that it asks for."""

    min: int = Field(ge=1, le=MAX_GPUS, description="The fewest GPUs.")
    max: int = Field(ge=1, le=MAX_GPUS, description="The most GPUs.")
    over: Annotated[Over, Field(strict=False)] = Field(
        default=Over.NODE,
        description="node: GPUs on each of its nodes; gang: GPUs in all, equally many on each of any number of nodes.",
    )


class Notify(_Strict):
    """Events to notify the owner of by mail and webhooks; it overrides their settings."""

    mail: list[Annotated[Kind, Field(strict=False)]]
    webhook: list[Annotated[Kind, Field(strict=False)]]


class Idle(_Strict):
    """The treatment of a job when all of its GPUs are idle."""

    below: float = Field(
        default=5, gt=0, le=100, description="The GPUs are idle below this utilisation of the busiest one, in percent."
    )
    for_: Annotated[Duration, AfterValidator(_idle_time)] = Field(
        default="30m", alias="for", description="The time that they must be idle, from 2m to 7d."
    )
    action: Literal["warn", "stop"] = Field(default="warn", description="warn: tell the owner; stop: end the job.")

    @property
    def rule(self) -> Rule:
        """The rule for idle GPUs."""
        return Rule(self.below, parse_duration_s(self.for_), self.action == "stop")


class LocalitySpec(_Strict):
    """The required closeness of the ranks, and the time to wait for it."""

    within: Annotated[Locality, Field(strict=False)] = Field(
        description="All ranks on one node, in one rack, or anywhere."
    )
    relax_after: Duration | None = Field(default=None, description="The time after which any place will do.")
    slowdown: float | None = Field(
        default=None,
        ge=1,
        le=1000,
        description="Your estimate of the slowdown factor when its GPUs are further apart than necessary.",
    )


class JobSpec(_Strict):
    """The description of a job. Unknown keys, and values that cannot be carried out, are errors."""

    name: Annotated[Name, Field(max_length=200)] | None = Field(
        default=None, description="The job's name. Default: the first word of the command."
    )
    command: str = Field(
        min_length=1, max_length=MAX_COMMAND_CHARS, description="The shell command that each rank runs."
    )
    gpus: Gpus = Field(
        default="0",
        description=(
            "GPUs per node: 4, with a type A100:4, by preference {any_of: [A100:4, V100:8]}, or by memory {vram: 40GiB,"
            " count: 2}."
        ),
    )
    nodes: int = Field(default=1, ge=1, le=MAX_NODES, description="A gang: all or nothing.")
    nodes_in: NodeNames = Field(
        default=[], description="Names of the nodes that the job may run on, such as [gpu01, gpu02]. Default: all."
    )
    exclude_nodes: NodeNames = Field(
        default=[], description="Names of nodes that the job may not run on, such as [gpu07]."
    )
    node_labels: Annotated[dict[str, str], BeforeValidator(checked_labels)] = Field(
        default={}, description="Labels that each of its nodes has, such as {network: infiniband}."
    )
    cpus: int | None = Field(default=None, ge=1, le=MAX_CPUS, description="Per node. Default: the share of its GPUs.")
    memory: Size | None = Field(default=None, description="Per node, such as 128GiB. Default: the share of its GPUs.")
    shm: Size | None = Field(default=None, description="Shared memory of a container, such as 16GiB.")
    image: Image | None = Field(
        default=None, description="The container image, such as pytorch/pytorch:2.9, for nodes that run containers."
    )
    code: Annotated[Code, BeforeValidator(_code)] | None = Field(
        default=None, description="The code that is unpacked into the working folder."
    )
    workdir: Workdir | None = Field(
        default=None,
        description=(
            "The folder in which the command starts: one below the job's own, such as src; in a container also an "
            "absolute path. Default: the job's own folder, which is /workspace in a container."
        ),
    )
    outputs: list[Output] = Field(
        default=[],
        max_length=MAX_OUTPUTS,
        description="Files below the working folder to keep, such as ckpt/** or *.csv; other files are removed.",
    )
    env: Annotated[dict[str, str], BeforeValidator(checked_env)] = Field(
        default={}, description="Environment variables by name."
    )
    params: Params = Field(
        default={}, description="Parameters by name, such as {lr: 0.1}: environment variables, as `env` has them."
    )
    mounts: list[Annotated[str, AfterValidator(plain_mount), Field(json_schema_extra={"pattern": PATTERN})]] = Field(
        default=[],
        max_length=MAX_MOUNTS,
        description="Volumes in its container, such as data:/data:ro or scratch:/scratch:rw. Default: ro.",
    )
    time: Duration | None = Field(
        default=None, description="Limit of the run time: the stop signal comes then, the kill after checkpoint.grace."
    )
    expected: Duration | None = Field(
        default=None,
        description="Your estimate of the run time, such as 2h: policies order jobs by it, and it ends no job.",
    )
    deadline: Moment | None = Field(
        default=None,
        description=("The wanted end, such as 2026-12-01T08:00Z. Policies that know deadlines use it; it ends no job."),
    )
    after: After = Field(
        default=[],
        description=(
            "Jobs and groups that it waits for, such as [1042:ok, 7:any]: ok (succeeds), any (ends), failed, started, "
            "or corr (the member with its number)."
        ),
    )
    begin: Begin | None = Field(
        default=None, description="When it may start at the earliest: 2026-12-01T08:00Z, or 2h from its submission on."
    )
    hold: bool = Field(
        default=False, description="Whether it is held back from its submission on, until it is released."
    )
    vc: Annotated[Text, Field(max_length=63)] | None = Field(
        default=None, description="The virtual cluster whose quota it uses. Default: your own."
    )
    priority: Literal["low", "normal", "high", "urgent"] = Field(
        default="normal", description="Its priority among the jobs of its virtual cluster."
    )
    klass: Annotated[JobClass, Field(strict=False)] = Field(
        default=JobClass.GUARANTEED,
        alias="class",
        description="guaranteed: within the quota; opportunistic: borrows idle GPUs and may be preempted.",
    )
    retry: Retry = Field(default=Retry(), description="Automatic retries: their number, and the ends that lead to one.")
    locality: LocalitySpec | None = Field(
        default=None, description="The required closeness of the ranks. Default: anywhere."
    )
    preemptible: bool = Field(
        default=True, description="Whether it may be preempted: stopped and queued again. False needs a time limit."
    )
    checkpoint: Checkpoint | None = Field(
        default=None,
        description="The way to stop the job. With this key the job promises to save its work when asked to stop.",
    )
    elastic: Elastic | None = Field(
        default=None,
        description="A policy may resize it by a restart, such as {min: 1, max: 8}, or {min: 1, max: 32, over: gang}.",
    )
    throughput: Throughput = Field(
        default={}, description="Your estimate of its progress per second by GPU type, such as {A100: 410, V100: 190}."
    )
    share: Annotated[Literal["never", "pack"], BeforeValidator(_share)] = Field(
        default="never", description="pack: another job of the virtual cluster may share its GPUs."
    )
    gpu_memory: Size | None = Field(
        default=None, description="Memory of each GPU, such as 20GiB, that a job with shared GPUs needs."
    )
    on_disconnect: Literal["stop", "keep"] = Field(
        default="stop", description="The node's action when it loses contact with the platform."
    )
    tags: Annotated[dict[str, str], BeforeValidator(checked_tags)] = Field(
        default={}, description="Tags by name, to find and filter jobs."
    )
    notify: Annotated[
        Notify | None, BeforeValidator(_notify, json_schema_input_type=list[Kind | Channel] | dict[Channel, list[Kind]])
    ] = Field(
        default=None,
        description="The events to notify the owner of: [ended, failed] or {mail: [failed]}. Default: their settings.",
    )
    stop_on: list[Literal["nan", "rising"]] = Field(
        default=[],
        max_length=2,
        description="Problems of the loss that end the job; for other problems its owner is only notified.",
    )
    idle: Idle | None = Field(
        default=None, description="The treatment of a job when all of its GPUs are idle. Default: the tenant's rule."
    )
    keep_failed: Duration | None = Field(
        default=None, description="The time that a failed job keeps its GPUs and files, for `muster shell`."
    )
    slurm_env: bool = Field(default=False, description="Also set SLURM_* variables.")
    batch: Batch | None = Field(
        default=None, description="The command is a batch script, run as Slurm runs it: on the first node, with `srun`."
    )
    screening: Annotated[Mode, Field(strict=False)] = Field(
        default=Mode.AUTO,
        description="Whether to screen it first on one or two GPUs, if its pool does that. auto: if it is large.",
    )

    @property
    def choices(self) -> tuple[GpuChoice, ...]:
        """The GPUs on each node that it accepts, in order of preference; never empty."""
        return choices_of(self.gpus)

    @property
    def max_gpus(self) -> int:
        """The most GPUs of all its nodes that a policy may give it; 0 for a job that is not elastic."""
        if self.elastic is None:
            return 0
        return self.elastic.max * (self.nodes if self.elastic.over is Over.NODE else 1)

    @property
    def may_span_nodes(self) -> bool:
        """Whether it runs on several nodes, or may be resized to several."""
        within_node = self.locality is not None and self.locality.within is Locality.NODE
        grows = self.elastic is not None and self.elastic.over is Over.GANG and self.elastic.max > 1
        return self.nodes > 1 or (grows and not within_node)

    @property
    def has_gpus(self) -> bool:
        """Whether it asks for GPUs."""
        return self.choices[0].gpus > 0

    @property
    def time_s(self) -> float | None:
        """The run-time limit in seconds."""
        return parse_duration_s(self.time) if self.time else None

    @property
    def deadline_at(self) -> datetime | None:
        """The deadline."""
        return parse_moment(self.deadline) if self.deadline else None

    def begins_at(self, now: datetime) -> datetime | None:
        """The earliest start, if it is submitted now."""
        return begins_at(self.begin, now) if self.begin else None

    @property
    def grace_s(self) -> float:
        """Seconds between the signal and SIGKILL."""
        return parse_duration_s((self.checkpoint or Checkpoint()).grace)

    @property
    def form(self) -> RuntimeNeed:
        """In what form it is started."""
        if self.mounts:
            return RuntimeNeed.IMAGE_VOLUMES if self.image else RuntimeNeed.CONTAINER_VOLUMES
        if self.image:
            return RuntimeNeed.IMAGE
        return RuntimeNeed.CONTAINER if self.shm else RuntimeNeed.PLAIN

    @property
    def checkpoints(self) -> bool:
        """Whether the job goes on where it was stopped: that is what naming a signal or a grace says."""
        return self.checkpoint is not None

    @property
    def keep_failed_s(self) -> float:
        """For how long what it ran in is kept if it fails."""
        return parse_duration_s(self.keep_failed) if self.keep_failed else 0.0

    @property
    def relax_after_s(self) -> float | None:
        """After how long a wait any place will do."""
        return parse_duration_s(self.locality.relax_after) if self.locality and self.locality.relax_after else None

    @property
    def memory_mib(self) -> int | None:
        """Memory on each node in MiB."""
        return parse_size_mib(self.memory) if self.memory else None

    @property
    def shm_mib(self) -> int | None:
        """Shared memory of a container in MiB."""
        return parse_size_mib(self.shm) if self.shm else None

    @property
    def gpu_memory_mib(self) -> int | None:
        """Memory of each of its GPUs in MiB."""
        return parse_size_mib(self.gpu_memory) if self.gpu_memory else None

    @property
    def packs(self) -> bool:
        """Whether another job may share its GPUs."""
        return self.share == "pack"

    @property
    def label(self) -> str:
        """The name, or what stands in for one: the command's first word."""
        if self.name:
            return self.name
        word = next(iter(self.command.split()), "job").rpartition("/")[2][:60]
        return word if word.isprintable() and word else "job"

    def stored(self) -> dict[str, Any]:
        """The spec as it is stored and shown: what was asked, with every default written out."""
        document = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        # A number without a type is shown as people write it: `gpus: 2`, not `gpus: "2"`.
        first = self.choices[0]
        named = first.gpu_type or isinstance(self.gpus, WithMemory)
        return document if named else document | {"gpus": first.gpus}


PARTS: Mapping[str, type[BaseModel]] = {
    "gpus": AnyOf,
    "code": Code,
    "retry": Retry,
    "locality": LocalitySpec,
    "checkpoint": Checkpoint,
    "elastic": Elastic,
    "idle": Idle,
    "batch": Batch,
}
"""The keys of a spec that are mappings with keys of their own."""
GROUP_KEYS = ("sweep", "array")
"""The keys that make the spec of a job that of many."""


def parse_spec(data: object) -> JobSpec:
    """The spec that the data describes; `Invalid` names each wrong field and, for an unknown key, the nearest one."""
    if not isinstance(data, dict):
        raise Invalid("a job spec is a mapping of keys to values", errors=(FieldError("", "expected a mapping"),))
    try:
        spec = JobSpec.model_validate(data, by_alias=True, by_name=False)
    except ValidationError as error:
        errors = tuple(_field_error(detail) for detail in error.errors(include_url=False, include_context=True)[:50])
        raise Invalid.fields(errors) from error
    if not spec.command.strip():
        raise Invalid.field("command", "it must not be empty")
    _require_sense(spec)
    return spec


def stop_signal(stored: dict[str, Any]) -> str:
    """The signal by which the job of a stored spec is asked to stop."""
    signal: str = Checkpoint.model_validate(stored.get("checkpoint") or {}).signal
    return signal


def _require_sense(spec: JobSpec) -> None:
    """Return if the keys agree with each other, and raise `Invalid` for the first that does not."""
    for name in spec.params:
        if name in spec.env:
            raise Invalid.field(f"params.{name}", "env has this variable too: leave one of them out")
    if not spec.preemptible and spec.klass is JobClass.OPPORTUNISTIC:
        raise Invalid.field("preemptible", "an opportunistic job uses what others leave, and gives it back when asked")
    if not spec.preemptible and spec.time is None:
        raise Invalid.field("preemptible", "a job that may not be stopped for others needs a limit: set time")
    if spec.expected and spec.time_s is not None and parse_duration_s(spec.expected) > spec.time_s:
        raise Invalid.field("expected", f"a job with the time limit {spec.time} cannot run for {spec.expected}")
    if spec.locality and spec.locality.within is Locality.NODE and spec.nodes > 1:
        raise Invalid.field("locality.within", f"{spec.nodes} ranks, each on a node of its own, are not on one node")
    _require_sense_of_nodes(spec)
    require_apart(spec.mounts, spec.workdir)
    if spec.idle is not None and not spec.has_gpus:
        raise Invalid.field("idle", "a job without GPUs has none that could be idle")
    if spec.throughput and not spec.has_gpus:
        raise Invalid.field("throughput", "a job without GPUs has no rate on any type: ask for gpus")
    _require_sense_of_sharing(spec)
    _require_sense_of_sizes(spec)
    if spec.batch is not None:
        grows = spec.elastic is not None and spec.elastic.over is Over.GANG
        errors = tuple(problems_of(spec.batch, nodes=spec.nodes, slurm_env=spec.slurm_env, grows=grows))
        if errors:
            raise Invalid.fields(errors)


def _require_sense_of_nodes(spec: JobSpec) -> None:
    left = [name for name in spec.nodes_in if name not in spec.exclude_nodes]
    if not spec.nodes_in or len(left) >= spec.nodes:
        return
    excluded = len(spec.nodes_in) - len(left)
    less = f", {excluded} of them in exclude_nodes" if excluded else ""
    raise Invalid.field(
        "nodes_in",
        f"it names {len(spec.nodes_in)} {'node' if len(spec.nodes_in) == 1 else 'nodes'}{less}; this job needs "
        f"{spec.nodes}. Name more nodes, or none to allow all",
    )


def _require_sense_of_sharing(spec: JobSpec) -> None:
    if spec.share == "never" and spec.gpu_memory is not None:
        raise Invalid.field("gpu_memory", "only a job that shares its GPUs says how much it needs: set share: pack")
    if spec.share == "pack" and not spec.has_gpus:
        raise Invalid.field("share", "a job without GPUs has none to share")
    if spec.share == "pack" and spec.gpu_memory is None:
        raise Invalid.field("gpu_memory", "a job that shares its GPUs says how much of their memory it needs")


def _require_sense_of_sizes(spec: JobSpec) -> None:
    elastic = spec.elastic
    if elastic is None:
        return
    if elastic.min > elastic.max:
        raise Invalid.field("elastic.min", f"{elastic.min} is above max, {elastic.max}")
    if not spec.has_gpus:
        raise Invalid.field("elastic", "a job without GPUs has no sizes: ask for gpus")
    each, in_all = (1, "") if elastic.over is Over.NODE else (spec.nodes, " in all")
    outside = [choice.gpus * each for choice in spec.choices if not elastic.min <= choice.gpus * each <= elastic.max]
    if outside:
        raise Invalid.field(
            "gpus", f"{outside[0]}{in_all} is not between min and max of elastic: write {elastic.min} to {elastic.max}"
        )
    if not spec.checkpoints:
        raise Invalid.field(
            "elastic", "a resize stops the job and starts it again: name checkpoint to say that it saves its work"
        )
    if not spec.preemptible:
        raise Invalid.field("elastic", "a resize stops the job: leave out preemptible: false, or elastic")
    if spec.share == "pack":
        raise Invalid.field("elastic", "a job that shares its GPUs keeps its size: leave out share: pack, or elastic")


def json_schema(**groups: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema of the spec, for editors that complete and check while one types; `groups` are those of the keys
    that make it the spec of many jobs."""
    schema = JobSpec.model_json_schema(by_alias=True, mode="validation")
    for name, group in groups.items():
        schema["$defs"] |= group.pop("$defs", {})
        schema["properties"][name] = group
    return schema


def _field_error(detail: ErrorDetails) -> FieldError:
    # Pydantic adds steps of its own to a location; fields of the spec are the lower-case names and the list indexes.
    path = [str(part) for part in detail["loc"] if not str(part).startswith(("function-", "constrained-", "["))]
    field = ".".join(path)
    if detail["type"] == "extra_forbidden":
        return FieldError(field, _unknown_key(path))
    return FieldError(field, message_of(detail, path))


def _unknown_key(path: list[str]) -> str:
    answer = answer_for(".".join(path))
    if answer is not None:
        return answer
    if path[0] in GROUP_KEYS:
        kind = path[0]
        return f"{'an' if kind == 'array' else 'a'} {kind} is many jobs: send this spec to POST /api/v1/{kind}s"
    model = PARTS.get(path[0], JobSpec) if len(path) > 1 else JobSpec
    known = [field.alias or name for name, field in model.model_fields.items()]
    if path[0] == "gpus" and len(path) > 1:
        known = [name for name in (*known, *WithMemory.model_fields) if name != path[-1]]
    return unknown_key(path[-1], known)
