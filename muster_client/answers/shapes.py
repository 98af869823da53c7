"""The JSON objects of the REST API, as typed dictionaries.

They describe what is read from the server. A key that an older or newer server may leave out is `NotRequired`.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from muster_client.answers.groups import GroupOfJob
from muster_client.answers.marks import Efficiency, FailedResize, Idle, JobFinish, JobRate, Kept, RunTimeEstimate

JsonObject = dict[str, Any]
JobSpec = dict[str, Any]
JobState = Literal["queued", "active", "succeeded", "failed", "cancelled"]

FINISHED: frozenset[str] = frozenset({"succeeded", "failed", "cancelled"})


class FieldError(TypedDict):
    """One field of a request and what is wrong with it."""

    field: str
    message: str


class Problem(TypedDict):
    """A problem document (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[FieldError]


class Hold(TypedDict):
    """Why a waiting job was not placed."""

    reason: str
    detail: str
    helps: list[str]


Failure = TypedDict(
    "Failure",
    {
        "class": str,
        "category": str,
        "retry": str | None,
        "line": str | None,
        "hint": str | None,
        "title": str,
        "retried": NotRequired[str | None],
        "last_words": NotRequired[str | None],
    },
)


class ScreeningRun(TypedDict):
    """The result of a job's run on a few GPUs, or why there was none."""

    verdict: str
    detail: str
    attempt: int | None
    failure: str
    line: str
    hint: str
    gpus_asked: int
    gpus: int
    ran_s: float


class Outlook(TypedDict):
    """Whether a job would first be screened on a few GPUs."""

    tried: bool
    why: str
    starts_now: NotRequired[bool | None]
    hold: NotRequired[Hold | None]


class GpuChoice(TypedDict):
    """GPUs of one type on each node; without a type, of any one type."""

    gpu_type: str | None
    gpus: int


class JobSize(GpuChoice):
    """The GPUs, CPUs and memory of a job on each node, in one of its choices."""

    cpus: int
    memory_mib: int


class DryRunSize(JobSize):
    """The same, and in words where the figures come from; None: from the spec."""

    cpus_from: str | None
    memory_from: str | None


class Job(TypedDict):
    """A job as the server tells it; `spec` is left out of lists."""

    id: int
    name: str
    vc: str
    tenant: str
    owner: str
    state: JobState
    stage: str
    desired: str
    hold: Hold | None
    priority: str
    spec: NotRequired[JobSpec]
    warnings: NotRequired[list[str]]
    notes: NotRequired[list[str]]
    efficiency: NotRequired[Efficiency | None]
    estimate: NotRequired[RunTimeEstimate | None]
    rates: NotRequired[list[JobRate]]
    finish: NotRequired[JobFinish | None]
    failed_resize: NotRequired[FailedResize | None]
    screening_runs: NotRequired[list[ScreeningRun]]
    gpu_choices: list[GpuChoice]
    sizes: NotRequired[list[JobSize]]
    nodes: int
    gpus_total: int
    submitted_at: str
    started_at: str | None
    ended_at: str | None
    run_time_s: float
    running_since: str | None
    exit_code: int | None
    failure: Failure | None
    reason: str | None
    reason_detail: str | None
    attempts: int
    position: int | None
    idle: NotRequired[Idle | None]
    kept: NotRequired[Kept | None]
    group: NotRequired[GroupOfJob | None]
    params: NotRequired[dict[str, Any]]
    links: dict[str, str]


class JobPage(TypedDict):
    """One page of jobs, and the cursor of the page after it."""

    results: list[Job]
    next: str | None


class JobCount(TypedDict):
    """How many jobs match, the GPUs that they ask for, and how many of them the user may cancel."""

    jobs: int
    gpus: int
    cancellable: int


class Cancelled(TypedDict):
    """The numbers of the jobs that were cancelled, and those that could not be with their problems."""

    cancelled: list[int]
    refused: list[JsonObject]


class Allocation(TypedDict):
    """One rank of an attempt on one node."""

    id: int
    node: str
    rank: int
    gpus: list[str]
    observed: str
    exit_code: int | None
    log_size: int
    log_complete: bool


class Attempt(TypedDict):
    """One try at running a job."""

    number: int
    state: str
    stage: str
    allocations: list[Allocation]
    placed_at: str | None
    started_at: str | None
    ended_at: str | None
    exit_code: int | None
    reason: str | None
    reason_detail: str | None


class JobEvent(TypedDict):
    """Something that happened to a job."""

    id: int
    at: str
    kind: str
    actor: str | None
    data: JsonObject


class NewestFigure(TypedDict):
    """The newest value of a figure that a job told of itself; None where it is no finite number."""

    name: str
    step: float | None
    value: float | None
    at: str


class AdviceGiven(TypedDict):
    """What the owner was told of the job's loss."""

    kind: str
    text: str
    step: float
    attempt: int
    at: str


class CheckpointInterval(TypedDict):
    """How often the job should save, in seconds, and what that follows from."""

    daly_s: float
    young_s: float
    cost_s: float
    measured: str
    measurements: int
    mtbf_s: float
    failures: int
    node_hours: float
    lost_share: float


class RuleMatched(TypedDict):
    """A rule of the operators that a line of the job's log has matched."""

    rule: str
    line: str
    actions: list[str]
    attempt: int
    rank: int
    node: str
    at: str


class Training(TypedDict):
    """How the training of a job goes."""

    newest: list[NewestFigure]
    advice: list[AdviceGiven]
    checkpoint: CheckpointInterval | None
    rules: list[RuleMatched]


class QuotaHolder(TypedDict):
    """A user who has GPUs of a quota, and the largest of the user's jobs there."""

    owner: str
    gpus: int
    jobs_total: int
    jobs: list[JsonObject]


class JobFairness(TypedDict):
    """How much longer a job takes than alone; `sentence` says it, or why that is not known."""

    final: bool
    sentence: str
    rho_quota: float | None
    rho_cluster: float | None
    taken_s: float | None


class Why(TypedDict):
    """The dominant reason for a job's state, and what would help."""

    state: str
    reason: str | None
    detail: str
    evidence: JsonObject
    helps: list[str]
    failure: NotRequired[Failure | None]
    position: int | None
    ahead: NotRequired[int | None]
    holders: NotRequired[list[QuotaHolder]]
    estimate: NotRequired[RunTimeEstimate | None]
    cycle: int | None
    at: str | None


class RuntimeOutlook(TypedDict):
    """In what a job would run, and on how many nodes of its pool."""

    runtime: str
    why: str
    nodes: int
    of: int


class DryRun(TypedDict):
    """What would happen to a job if it was submitted now."""

    valid: bool
    spec: JobSpec
    feasible: bool
    fits_quota: bool
    starts_now: bool
    hold: Hold | None
    position: int | None
    gpu_choices: list[GpuChoice]
    sizes: NotRequired[list[DryRunSize]]
    notes: NotRequired[list[str]]
    gpus_total: int
    screening: NotRequired[Outlook]
    runtime: NotRequired[RuntimeOutlook]


class Upload(TypedDict):
    """A stored code archive."""

    sha256: str
    size: int


class Quota(TypedDict):
    """How many GPUs of one type a virtual cluster may hold, and how many it holds."""

    gpu_type: str
    gpus: int
    used: int


class Vc(TypedDict):
    """A virtual cluster."""

    id: int
    name: str
    tenant: str
    pool: str
    quotas: list[Quota]
    waiting: int
    active: int


class Membership(TypedDict):
    """A tenant of the user and the role there."""

    name: str
    role: str


class Me(TypedDict):
    """The user whom the token belongs to."""

    username: str
    email: str
    is_operator: bool
    tenants: list[Membership]
    vcs: list[str]
    default_vc: str | None


class Token(TypedDict):
    """An API token; its secret is only there when it was just created."""

    id: int
    name: str
    prefix: str
    created_at: str
    expires_at: str | None
    last_used_at: str | None
    scopes: list[str]
    survives_password_change: bool
    token: NotRequired[str]


class Registry(TypedDict):
    """What a tenant signs in with at a registry of images, without the password."""

    id: int
    tenant: str
    registry: str
    username: str
    changed_at: str
    changed_by: str


class Maintenance(TypedDict):
    """A time in which a node, or every node of a pool where `node` is None, is to be free of jobs."""

    id: int
    pool: str
    node: str | None
    begins_at: str
    ends_at: str
    running_jobs: str
    reason: str
    begun_at: str | None
    created_by: str


class Volume(TypedDict):
    """A volume that jobs of a tenant may mount; `vc` is None where every one of the tenant's may."""

    name: str
    tenant: str
    vc: str | None
    mode: str


class Webhook(TypedDict):
    """Where notices are posted to; `state` is `working`, `failing` or `disabled`."""

    id: int
    url: str
    state: str
    reason: str | None
    last_result: str | None
    last_try_at: str | None
    last_success_at: str | None
    failing_since: str | None
    created_at: str


class NewWebhook(Webhook):
    """A webhook that was just made, with the secret that its calls are signed with."""

    secret: str


class OutputFile(TypedDict):
    """A file that a job left; `state` is `kept`, `arriving`, or why it is not there."""

    id: int
    attempt: int
    rank: int
    path: str
    size: int
    sha256: str | None
    state: str
    at: str


class OutputsSummary(TypedDict):
    """What can be said of a job's files as a whole."""

    patterns: list[str]
    kept_files: int
    kept_bytes: int
    most_files: int
    most_bytes: int
    kept_until: str | None
    pending: int
    lost: int
    unnamed: int
    cut_short: bool


class OutputFiles(TypedDict):
    """The files of a job, and what can be said of all of them."""

    results: list[OutputFile]
    summary: OutputsSummary


class OpenedShell(TypedDict):
    """A shell that was asked for; its token opens this one only."""

    id: int
    job: int
    attempt: int
    rank: int
    node: str
    token: str
