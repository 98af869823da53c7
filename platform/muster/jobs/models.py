"""Jobs, attempts, allocations and GPU claims. The constraints here are the last word on who holds what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings
from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import ArrayField, BigIntegerRangeField
from django.contrib.postgres.indexes import GinIndex, OpClass
from django.db import models
from django.db.models import Case, ExpressionWrapper, F, Func, Q, Value, When
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Coalesce, Lower, Upper

from muster.common.models import DatabaseNow, check, choices, empty_when, index, one_of, set_when, unique
from muster.fleet.models import Gpu, Node, Pool
from muster.jobs.fields import RequestField
from muster.tenants.models import Tenant, VirtualCluster
from scheduler.model.dependencies import DependencyKind, DependencyState
from scheduler.model.lifecycle import (
    ATTEMPT_LIVE,
    ATTEMPT_TERMINAL,
    JOB_TERMINAL,
    AllocationState,
    AttemptState,
    Desired,
    GroupKind,
    GroupState,
    HoldReason,
    JobClass,
    JobState,
    Locality,
    Observed,
    Stage,
)
from scheduler.model.reasons import Reason
from scheduler.model.request import Request
from scheduler.predict.runtimes.quantiles import Source

_NO_TYPE = Value("", models.TextField())
_NUMBERS = r"[\W_]*\d[\d\W_]*"
STEM_SQL = f"regexp_replace(lower({{name}}), '{_NUMBERS}', '#', 'g')"
"""As `scheduler.predict.history.stem_of`, for `format`."""
_STEM = Func(Lower("name"), Value(_NUMBERS), Value("#"), Value("g"), function="regexp_replace")


def end_reasons() -> list[tuple[str, str]]:
    """The reasons for which jobs and attempts end, as Django's choices; named in migrations, so that a new one needs
    none."""
    return choices(Reason)


class CodeArchive(models.Model):
    """A folder of code, packed, stored once by the SHA-256 of its bytes."""

    sha256 = models.CharField(max_length=64, primary_key=True)
    size = models.BigIntegerField()
    created_at = models.DateTimeField(db_default=DatabaseNow())
    owners = models.ManyToManyField(settings.AUTH_USER_MODEL, related_name="code_archives")
    private = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Whether it is the environment of its owner, which no one else may run.",
    )

    def __str__(self) -> str:
        return self.sha256[:12]


class JobGroup(models.Model):
    """Jobs that were submitted as one and share one budget: at most `parallel` of them are active at once."""

    # From the sequence of the jobs' numbers (0004_arrays), so that a number is a job's or a group's, and never both.
    id = models.BigAutoField(primary_key=True)
    kind = models.CharField(max_length=10, choices=choices(GroupKind))
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="job_groups", db_index=False)
    vc = models.ForeignKey(VirtualCluster, on_delete=models.PROTECT, related_name="job_groups")
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="job_groups")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="job_groups", db_index=False
    )
    name = models.CharField(max_length=200)
    spec = models.JSONField(help_text="As submitted; a member's spec is this without what makes it a group.")
    code = models.ForeignKey(CodeArchive, on_delete=models.PROTECT, null=True, related_name="job_groups")
    cloned_from = models.ForeignKey("self", on_delete=models.SET_NULL, null=True, related_name="clones")
    size = models.PositiveIntegerField(help_text="How many members it has.")
    parallel = models.PositiveIntegerField(help_text="Members that may be active at once.")
    env = models.JSONField(default=dict, help_text="Environment variables of all members, set by the platform.")

    state = models.CharField(max_length=10, choices=choices(GroupState), default=GroupState.ACTIVE)
    desired = models.CharField(max_length=4, choices=choices(Desired), default=Desired.RUN)
    reason = models.CharField(max_length=500, default="", blank=True, help_text="Why it ended so.")
    submitted_at = models.DateTimeField(db_default=DatabaseNow())
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            one_of("kind", GroupKind, name="group_kind_known"),
            one_of("state", GroupState, name="group_state_known"),
            empty_when("ended_at", "group_ended_has_time", state=GroupState.ACTIVE),
            check("group_runs_members", Q(parallel__gte=1)),
        ]
        indexes = [
            index("group_active", ["pool"], Q(state=GroupState.ACTIVE)),
            index("group_of_tenant", ["tenant", "-id"]),
            index("group_of_owner", ["owner", "-id"]),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.pk} {self.name}"


class Job(models.Model):
    """A job: its spec, its owner's wish and its state."""

    awaited: Sequence[Dependency] = ()
    """The dependencies of a job that is not stored yet."""

    id = models.BigAutoField(primary_key=True)
    # Of tenant and owner there are indexes with more columns, and each index costs a job's every change.
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="jobs", db_index=False)
    vc = models.ForeignKey(VirtualCluster, on_delete=models.PROTECT, related_name="jobs")
    # Of its virtual cluster, or the one in which it is screened: whose queue it is in, or was in last.
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="jobs")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="jobs", db_index=False)
    name = models.CharField(max_length=200)
    spec = models.JSONField()
    tags = models.JSONField(default=dict)
    # Few jobs have these, so their indexes leave all other jobs out.
    code = models.ForeignKey(CodeArchive, on_delete=models.PROTECT, null=True, related_name="jobs", db_index=False)
    cloned_from = models.ForeignKey("self", on_delete=models.SET_NULL, null=True, related_name="clones", db_index=False)
    group = models.ForeignKey(JobGroup, on_delete=models.PROTECT, null=True, related_name="members", db_index=False)
    member = models.PositiveIntegerField(null=True, help_text="Its number in the group, from 1.")
    array_index = models.PositiveIntegerField(null=True, help_text="Its index, if the group is an array.")
    paused = models.BooleanField(default=False, db_default=False, help_text="Whether its group holds it back for now.")

    state = models.CharField(max_length=10, choices=choices(JobState), default=JobState.QUEUED)
    desired = models.CharField(max_length=4, choices=choices(Desired), default=Desired.RUN)
    stage = models.CharField(max_length=10, choices=choices(Stage), default=Stage.FULL)
    screening = models.JSONField(
        null=True, help_text="The screening run that it waits for or is in: jobs.runs.ScreeningRun."
    )
    hold_reason = models.CharField(max_length=20, choices=choices(HoldReason), default="", blank=True)
    hold = models.JSONField(null=True)

    request = RequestField(help_text="What it asks for: scheduler.model.request.")
    # Postgres computes what queries filter and sort by from the request. Python reads the request.
    gpu_type = models.GeneratedField(
        expression=Case(
            When(request__choices__1__isnull=True, then=Coalesce(KT("request__choices__0__gpu_type"), _NO_TYPE)),
            default=_NO_TYPE,
        ),
        output_field=models.CharField(max_length=63),
        db_persist=True,
        help_text="Empty where any type will do, and where there are several choices.",
    )
    gpus = models.GeneratedField(
        expression=Cast(KT("request__choices__0__gpus"), models.IntegerField()),
        output_field=models.IntegerField(),
        db_persist=True,
        help_text="GPUs on each node, by its first choice.",
    )
    nodes = models.GeneratedField(
        expression=Cast(KT("request__nodes"), models.IntegerField()),
        output_field=models.IntegerField(),
        db_persist=True,
    )
    time_limit_s = models.FloatField(null=True)
    deadline_at = models.DateTimeField(null=True, help_text="When it should have ended, for policies that know it.")
    grace_s = models.FloatField(default=30)
    priority = models.IntegerField(default=10)
    held = models.BooleanField(
        default=False, db_default=False, help_text="Whether it is held back until its owner or a manager releases it."
    )
    blocked_by = models.PositiveSmallIntegerField(
        default=0, db_default=0, help_text="How many of its dependencies are not met; no cycle looks at it before."
    )
    keeps_waiting = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Whether it waits on, and does not end, if its dependencies can never be met.",
    )
    startable = models.GeneratedField(
        expression=ExpressionWrapper(
            Q(state=JobState.QUEUED.value, desired=Desired.RUN.value, held=False, paused=False, blocked_by=0),
            output_field=models.BooleanField(),
        ),
        output_field=models.BooleanField(),
        db_persist=True,
        help_text="Whether a cycle may start it, once `eligible_at` has come and its group has room.",
    )
    bumped = models.PositiveIntegerField(
        default=0, db_default=0, help_text="In its virtual cluster the job with the largest number goes first; 0: none."
    )
    own_rank = models.FloatField(null=True, help_text="Its rank among its owner's jobs, if these were put in order.")
    klass = models.CharField(max_length=14, choices=choices(JobClass), default=JobClass.GUARANTEED)

    submitted_at = models.DateTimeField(db_default=DatabaseNow())
    eligible_at = models.DateTimeField(db_default=DatabaseNow())
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    attempt_count = models.PositiveIntegerField(default=0)
    retries_used = models.PositiveIntegerField(default=0)
    retried_because = models.CharField(
        max_length=300, default="", db_default="", blank=True, help_text="Which attempt was tried again last, and why."
    )
    requeued_at = models.DateTimeField(null=True, help_text="When it last went back to the queue.")
    attained_gpu_s = models.FloatField(default=0, help_text="By the attempts that have ended.")
    ran_s = models.FloatField(default=0, help_text="With its GPUs, in the attempts that have ended.")
    expected_s = models.FloatField(null=True, help_text="Predicted run time, from the first start to the end.")
    expected_p10_s = models.FloatField(
        null=True, help_text="Its predicted run time is below this with probability 0.1."
    )
    expected_p90_s = models.FloatField(
        null=True, help_text="Its predicted run time is below this with probability 0.9."
    )
    expected_source = models.CharField(
        max_length=8,
        choices=choices(Source),
        default="",
        db_default="",
        blank=True,
        help_text="Where these come from: jobs.attempt.estimates.",
    )
    memo = models.JSONField(default=dict, help_text="What the pool's policy asked to be told again.")
    preemptible = models.BooleanField(default=True)
    checkpoints = models.BooleanField(default=False, help_text="Whether it goes on where it was stopped.")
    relax_after_s = models.FloatField(null=True, help_text="How long it waits for its locality.")
    avoid_nodes = models.JSONField(default=list)
    exit_code = models.IntegerField(null=True)
    reason = models.CharField(max_length=20, choices=end_reasons, default="", blank=True)
    reason_detail = models.CharField(max_length=500, default="", blank=True)
    failure = models.JSONField(null=True, help_text="The verdict on its last attempt, if that failed: jobs.verdicts.")
    failed_resize = models.JSONField(
        null=True, help_text="Its last resize that did not come back: jobs.resizes.FailedResize."
    )
    counted = models.BooleanField(
        default=False, db_default=False, help_text="Whether it has ended and is in the totals by days of usage."
    )

    class Meta:
        constraints = [
            one_of("state", JobState, name="job_state_known"),
            set_when("ended_at", "job_ended_has_time", state__in=sorted(JOB_TERMINAL)),
            check("job_has_nodes", Q(nodes__isnull=False, nodes__gte=1)),
            check("job_gpus_not_negative", Q(gpus__isnull=False, gpus__gte=0)),
            check(
                "job_screened_with_request",
                Q(stage=Stage.FULL, screening__isnull=True) | Q(stage=Stage.SCREENING, screening__isnull=False),
            ),
            check("job_that_borrows_is_preemptible", Q(klass=JobClass.GUARANTEED) | Q(preemptible=True)),
            check("job_that_stays_has_limit", Q(preemptible=True) | Q(time_limit_s__isnull=False)),
            one_of("request__locality", Locality, name="job_locality_known"),
            check(
                "job_that_shares_gpus_says_size",
                Q(request__shares_gpu=False)
                | (Q(gpus__gte=1) & ~Q(request__gpu_memory_mib=Value(None, models.JSONField()))),
            ),
            check("job_hold_only_while_queued", Q(state=JobState.QUEUED) | Q(hold_reason="")),
            unique("job_member_once", ["group", "member"], Q(group__isnull=False)),
            check(
                "job_of_group_has_number",
                Q(group__isnull=True, member__isnull=True, paused=False)
                | Q(group__isnull=False, member__isnull=False, member__gte=1),
            ),
        ]
        indexes = [
            index("job_startable", ["pool", "id"], Q(startable=True)),
            index("job_active", ["pool", "id"], Q(state=JobState.ACTIVE)),
            index("job_screened", ["pool"], Q(stage=Stage.SCREENING, state__in=[JobState.QUEUED, JobState.ACTIVE])),
            models.Index(
                "vc",
                F("priority") * -1,
                "submitted_at",
                "id",
                name="job_queue_order",
                condition=Q(state=JobState.QUEUED),
            ),
            index("job_of_tenant", ["tenant", "-id"]),
            index("job_of_tenant_by_state", ["tenant", "state", "-id"]),
            index("job_of_owner", ["owner", "-id"]),
            models.Index(F("owner"), _STEM, F("ended_at"), name="job_of_stem"),
            index("job_by_state", ["state", "-id"]),
            # Jobs that have not ended are in neither of these, so that their changes cost nothing more.
            index("job_ended", ["ended_at"], Q(ended_at__isnull=False)),
            index("job_of_owner_ended", ["owner", "ended_at"], Q(ended_at__isnull=False)),
            index("job_to_be_counted", ["id"], Q(state__in=sorted(JOB_TERMINAL), counted=False)),
            index("job_of_group_by_state", ["group", "state", "id"], Q(group__isnull=False)),
            index("job_of_code", ["code"], Q(code__isnull=False)),
            index("job_cloned", ["cloned_from"], Q(cloned_from__isnull=False)),
            GinIndex(fields=["tags"], name="job_tags"),
            GinIndex(OpClass(Upper("name"), name="gin_trgm_ops"), name="job_name_search"),
        ]

    def __str__(self) -> str:
        return f"{self.pk} {self.name}"

    @property
    def params(self) -> Mapping[str, Any]:
        """Its parameters; lists of jobs read them as `stored_params`, without the spec."""
        loaded = self.__dict__
        found = loaded["stored_params"] if "stored_params" in loaded else self.spec.get("params")
        return found or {}

    @property
    def gpus_total(self) -> int:
        """GPUs of the whole gang, by its first choice."""
        request: Request = self.request
        return request.nodes * request.first.gpus


class QueueOrder(models.Model):
    """The waiting jobs of a virtual cluster in the order of the policy, as the last cycle found it."""

    vc = models.OneToOneField(VirtualCluster, on_delete=models.CASCADE, primary_key=True, related_name="queue_order")
    job_ids = ArrayField(models.BigIntegerField())
    at = models.DateTimeField(db_default=DatabaseNow())

    def __str__(self) -> str:
        return f"{len(self.job_ids)} jobs of {self.vc_id}"


class Attempt(models.Model):
    """One try at running a job. Its id is its fence: ids only grow, so an older one can be told and refused."""

    id = models.BigAutoField(primary_key=True)
    # The unique constraints of an attempt and of its allocations begin with these columns, and are their indexes.
    job = models.ForeignKey(Job, on_delete=models.PROTECT, related_name="attempts", db_index=False)
    number = models.PositiveIntegerField()
    state = models.CharField(max_length=10, choices=choices(AttemptState), default=AttemptState.PLACED)
    stage = models.CharField(max_length=10, choices=choices(Stage), default=Stage.FULL)
    request = RequestField(help_text="What it was given to run with: the job's request, in exactly one choice.")
    given = models.JSONField(default=dict, help_text="What the decision handed to its environment.")
    time_limit_s = models.FloatField(null=True)
    grace_s = models.FloatField(default=30)
    outcome = models.CharField(
        max_length=10, choices=choices(AttemptState), default="", help_text="What it becomes once all is released."
    )
    reason = models.CharField(max_length=20, choices=end_reasons, default="")
    reason_detail = models.CharField(max_length=500, default="")
    exit_code = models.IntegerField(null=True)
    failure = models.JSONField(null=True, help_text="Why it failed, by its logs: jobs.verdicts.")
    master_addr = models.CharField(max_length=255)
    master_port = models.PositiveIntegerField()
    stop_after_s = models.FloatField(default=600, help_text="The pool's, as the agents are told at the launch.")
    placed_at = models.DateTimeField(db_default=DatabaseNow())
    starting_at = models.DateTimeField(null=True)
    running_at = models.DateTimeField(null=True)
    stopping_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    unreachable_since = models.DateTimeField(null=True)
    kept_until = models.DateTimeField(
        null=True,
        help_text="Until when what its first failed rank ran in is kept; reason and exit code are that one's.",
    )
    fence_at = models.DateTimeField(null=True, help_text="When its processes must be gone, if a node stays away.")

    class Meta:
        constraints = [
            one_of("state", AttemptState, name="attempt_state_known"),
            unique("attempt_number", ["job", "number"]),
            check("attempt_has_one_choice", Q(request__choices__0__isnull=False, request__choices__1__isnull=True)),
            unique("one_live_attempt_a_job", ["job"], Q(state__in=sorted(ATTEMPT_LIVE))),
            unique("master_port_once_per_address", ["master_addr", "master_port"], Q(state__in=sorted(ATTEMPT_LIVE))),
            set_when("ended_at", "attempt_ended_has_time", state__in=sorted(ATTEMPT_TERMINAL)),
            check("attempt_running_has_time", ~Q(state=AttemptState.RUNNING) | Q(running_at__isnull=False)),
            check(
                "attempt_stopping_has_time",
                ~Q(state=AttemptState.STOPPING) | (Q(stopping_at__isnull=False) & ~Q(outcome="")),
            ),
        ]

    def __str__(self) -> str:
        return f"attempt {self.number} of job {self.job_id}"

    @property
    def gpus_total(self) -> int:
        """GPUs of the whole gang."""
        request: Request = self.request
        return request.nodes * request.first.gpus


class Allocation(models.Model):
    """The hold of one rank on one node."""

    id = models.BigAutoField(primary_key=True)
    attempt = models.ForeignKey(Attempt, on_delete=models.PROTECT, related_name="allocations", db_index=False)
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="allocations")
    rank = models.PositiveIntegerField()
    state = models.CharField(max_length=10, choices=choices(AllocationState), default=AllocationState.RESERVED)
    observed = models.CharField(max_length=10, choices=choices(Observed), default=Observed.NONE)
    cpus = models.PositiveIntegerField()
    memory_mib = models.PositiveBigIntegerField()
    boot_id = models.CharField(max_length=64, default="")
    state_id = models.CharField(
        max_length=64,
        default="",
        db_default="",
        help_text="The agent's state folder out of which it was claimed: jobs.claimants.",
    )
    claimed_at = models.DateTimeField(null=True)
    failed_at = models.DateTimeField(null=True, help_text="When its command failed, if what it ran in is kept.")
    ended_at = models.DateTimeField(null=True, help_text="When the agent said that no process is left.")
    exit_code = models.IntegerField(null=True)
    end_reason = models.CharField(max_length=20, choices=end_reasons, default="")
    end_detail = models.CharField(max_length=500, default="")
    released_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            one_of("state", AllocationState, name="allocation_state_known"),
            unique("allocation_rank", ["attempt", "rank"]),
            unique("allocation_node_once", ["attempt", "node"]),
            set_when("released_at", "allocation_released_has_time", state=AllocationState.RELEASED),
            check(
                "allocation_active_was_claimed",
                Q(state__in=[AllocationState.RESERVED, AllocationState.RELEASED]) | Q(claimed_at__isnull=False),
            ),
        ]
        indexes = [index("allocation_held", ["node", "id"], ~Q(state=AllocationState.RELEASED))]

    def __str__(self) -> str:
        return f"rank {self.rank} of attempt {self.attempt_id}"


class Dependency(models.Model):
    """A dependency of a job: on a job, a group, or the earlier jobs of an owner with one name.

    Of those with the same clause one is enough. A member of a group that stands for it has both columns.
    """

    id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="dependencies", db_index=False)
    clause = models.PositiveSmallIntegerField(help_text="The entry of `after` that says it, from 0.")
    kind = models.CharField(max_length=10, choices=choices(DependencyKind))
    on_job = models.ForeignKey(Job, on_delete=models.CASCADE, null=True, related_name="dependents", db_index=False)
    on_group = models.ForeignKey(
        JobGroup, on_delete=models.CASCADE, null=True, related_name="dependents", db_index=False
    )
    on_owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="+", db_index=False
    )
    on_name = models.CharField(max_length=200, default="", blank=True)
    later_s = models.PositiveIntegerField(
        default=0, db_default=0, help_text="How long after the start of the other job it may start."
    )
    state = models.CharField(max_length=5, choices=choices(DependencyState), default=DependencyState.OPEN)

    class Meta:
        constraints = [
            one_of("kind", DependencyKind, name="dependency_kind_known"),
            one_of("state", DependencyState, name="dependency_state_known"),
            check(
                "dependency_on_something",
                Q(kind=DependencyKind.SINGLETON, on_owner__isnull=False, on_job__isnull=True, on_group__isnull=True)
                | (~Q(kind=DependencyKind.SINGLETON) & (Q(on_job__isnull=False) | Q(on_group__isnull=False))),
            ),
        ]
        indexes = [
            index("dependency_of_job", ["job", "clause"]),
            index("dependency_on_job", ["on_job", "job"], Q(on_job__isnull=False)),
            index("dependency_on_group", ["on_group", "job"], Q(on_group__isnull=False)),
            index("dependency_on_name", ["on_owner", "on_name", "job"], Q(on_owner__isnull=False, state="open")),
        ]

    @property
    def target(self) -> str:
        """The job, group or name that it is on, in words."""
        if self.on_group is not None and self.on_job_id is None and self.kind == DependencyKind.CORR:
            return f"its member of {self.on_group.kind} {self.on_group_id}"
        if self.on_group is not None and (self.on_job_id is None or self.kind == DependencyKind.STARTED):
            return f"{self.on_group.kind} {self.on_group_id}"
        return f"your earlier jobs named {self.on_name}" if self.on_job_id is None else f"job {self.on_job_id}"

    def __str__(self) -> str:
        return f"job {self.job_id} waits for {self.kind} of {self.on_job_id or self.on_group_id or self.on_name}"


class RankTail(models.Model):
    """The end of the log of a rank that is over, while its gang is not: then it is judged by all of them."""

    allocation = models.OneToOneField(Allocation, on_delete=models.CASCADE, primary_key=True, related_name="tail")
    text = models.TextField()

    def __str__(self) -> str:
        return f"tail of allocation {self.allocation_id}"


class GpuClaim(models.Model):
    """An allocation's hold of slots of one GPU. Two open claims can never overlap: the database refuses the second."""

    id = models.BigAutoField(primary_key=True)
    allocation = models.ForeignKey(Allocation, on_delete=models.PROTECT, related_name="claims")
    gpu = models.ForeignKey(Gpu, on_delete=models.PROTECT, related_name="claims")
    span = BigIntegerRangeField()
    claimed_at = models.DateTimeField(db_default=DatabaseNow())
    released_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            ExclusionConstraint(
                name="gpu_slot_once", expressions=[("span", "&&")], condition=Q(released_at__isnull=True)
            )
        ]

    def __str__(self) -> str:
        return f"claim of GPU {self.gpu_id} by allocation {self.allocation_id}"


class Reservation(models.Model):
    """A reservation for a job while others stop: the allocations that it gets once they have let go of them.

    A row past `until` keeps nothing, and the next cycle removes it.
    """

    job = models.OneToOneField(Job, on_delete=models.CASCADE, primary_key=True, related_name="reservation")
    allocations = models.JSONField(help_text="node_id, rank, gpu_ids, cpus and memory_mib for each rank.")
    given = models.JSONField(default=dict, help_text="What the decision handed to its environment.")
    created_at = models.DateTimeField(db_default=DatabaseNow())
    until = models.DateTimeField()

    def __str__(self) -> str:
        return f"kept for job {self.job_id}"


class ReservedGpu(models.Model):
    """A GPU that is kept for one job, and cannot be kept for another."""

    gpu = models.OneToOneField(Gpu, on_delete=models.CASCADE, primary_key=True, related_name="reserved")
    reservation = models.ForeignKey(Reservation, on_delete=models.CASCADE, related_name="gpus")

    def __str__(self) -> str:
        return f"GPU {self.gpu_id} is kept for job {self.reservation_id}"


class ExcludedNode(models.Model):
    """A node that further tries of a job avoid whatever becomes of them, since a rule on its log said so."""

    id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="excluded_nodes", db_index=False)
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="+")
    at = models.DateTimeField(db_default=DatabaseNow())

    class Meta:
        constraints = [unique("node_excluded_once", ["job", "node"])]

    def __str__(self) -> str:
        return f"node {self.node_id} for job {self.job_id}"


class IdempotencyKey(models.Model):
    """A key that a client sent with a submission, so that sending it again answers the same and stores nothing."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    key = models.CharField(max_length=200)
    body_digest = models.CharField(max_length=64)
    job_ids = models.JSONField(default=list)
    group = models.ForeignKey(JobGroup, on_delete=models.CASCADE, null=True, related_name="+")
    errors = models.JSONField(default=list)
    created_at = models.DateTimeField(db_default=DatabaseNow())

    class Meta:
        constraints = [unique("idempotency_key_once", ["owner", "key"])]
        indexes = [index("idempotency_age", ["created_at"])]

    def __str__(self) -> str:
        return self.key
