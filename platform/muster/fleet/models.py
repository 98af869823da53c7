"""Pools, nodes, GPUs, and what the agents last said of them."""

from __future__ import annotations

from enum import StrEnum

from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator, RegexValidator
from django.db import models
from django.db.models import F, Q

from muster.common.models import DatabaseNow, check, choices, index, one_of, unique
from nodeagent.protocol.messages import source_problem
from scheduler.diagnosis.health import Action, HealthLevel, Recovers
from scheduler.model.lifecycle import LeaseState, NodeAdmin, NodeHealth


class StrikeReason(StrEnum):
    """A failure that a node is blamed for; the words that attempts end with are spelled as there."""

    NODE_LOST = "node_lost"
    NODE_REBOOTED = "node_rebooted"
    NOT_CLAIMED = "not_claimed"
    NEVER_STARTED = "never_started"
    LAUNCH_FAILED = "launch_failed"
    GPU_LOST = "gpu_lost"
    GPU_ECC = "gpu_ecc"
    GPU_FAILED = "gpu_failed"
    TOLD_BY_JOBS = "told_by_jobs"


class CheckResult(StrEnum):
    """The result of the last check of a GPU."""

    NONE = ""
    PASSED = "passed"
    FAILED = "failed"
    STOPPED = "stopped"
    """A job came first."""
    UNANSWERED = "unanswered"
    """Its agent has said nothing, as one does that knows of no checks."""


MAX_HALF_LIFE_S = 365 * 86_400

SLUG = RegexValidator(r"\A[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z", "Use a-z, 0-9 and '-', at most 63 characters.")


# Networks in which ranks on two nodes can never reach each other, and words that mean something else to an engine.
_NOT_OF_GANGS = "none|bridge|default|private|slirp4netns|pasta|container|ns|ingress"
GANG_NETWORK = RegexValidator(
    rf"\A(?!(?:{_NOT_OF_GANGS})\Z)[A-Za-z0-9][A-Za-z0-9_.-]{{0,63}}\Z",
    "Write host, refuse, or the name of a network that spans the nodes and knows containers by their names (overlay): "
    "by none, bridge and the like ranks on two nodes do not reach each other.",
)


def require_roots(text: str) -> None:
    """Return if each line is a folder below which volumes may lie."""
    for line in text.split():
        problem = source_problem(line)
        if problem:
            raise ValidationError("%(line)s: %(problem)s.", params={"line": line[:100], "problem": problem})


class Pool(models.Model):
    """Nodes that are scheduled together, the policy that does it, and the timers of their agents (seconds)."""

    name = models.CharField(max_length=63, unique=True, validators=[SLUG])
    policy = models.CharField(max_length=40, default="fifo")
    policy_params = models.JSONField(default=dict, blank=True)
    placement = models.CharField(max_length=40, default="consolidate")
    placement_params = models.JSONField(default=dict, blank=True)
    admission = models.CharField(max_length=40, default="quota")
    admission_params = models.JSONField(default=dict, blank=True)
    fallback = models.JSONField(
        null=True, editable=False, help_text="What the pool decides by instead of its settings, since when and why."
    )

    beat_s = models.FloatField(default=5)
    suspect_after_s = models.FloatField(default=15)
    unreachable_after_s = models.FloatField(default=30)
    stop_after_s = models.FloatField(default=600, help_text="An agent without an answer for so long stops its jobs.")
    fence_margin_s = models.FloatField(
        default=30,
        help_text="For how long at least what a silent node had is kept after its jobs were to be killed; 3 % of the "
        "time until then if that is more.",
    )
    lowered_at = models.DateTimeField(
        null=True, editable=False, help_text="When stop_after_s was last lowered; Postgres writes it."
    )
    lowered_from_s = models.FloatField(
        null=True, editable=False, help_text="What it was before: agents that were told so may still go by it."
    )
    silent_since = models.DateTimeField(
        null=True, editable=False, help_text="Since when more than half of it is silent, so that no node is given up."
    )
    max_grace_s = models.FloatField(default=600, help_text="Upper limit of a job's checkpoint grace.")
    claim_timeout_s = models.FloatField(default=60)
    orphan_grace_s = models.FloatField(default=30)
    cpus_per_gpu = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="CPUs of a job that names none, for each of its GPUs. Empty: the smallest share of its GPU type, "
        "a node's CPUs ÷ its GPUs.",
    )
    memory_mib_per_gpu = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Memory of a job that names none, for each of its GPUs. Empty: the smallest share of its GPU type, "
        "a node's memory ÷ its GPUs.",
    )
    log_max_bytes_per_job = models.BigIntegerField(default=1 << 30)
    offer_lease_s = models.FloatField(default=30, help_text="How long an offer to a scheduler outside stands.")
    strike_half_life_s = models.FloatField(
        default=86_400, help_text="A failure that a node is blamed for counts half after so long; at most a year."
    )
    black_hole_jobs = models.PositiveSmallIntegerField(
        default=3,
        help_text="A node where so many jobs in a row fail at once, and not elsewhere, is cordoned; 0 turns that off.",
    )
    black_hole_s = models.FloatField(default=60, help_text="Within how long they must have failed.")

    check_gpus = models.BooleanField(
        default=True, help_text="Whether agents look at GPUs before they start a job there."
    )
    check_every_s = models.FloatField(
        default=6 * 3600, help_text="How often a GPU is checked while nobody has it; 0 turns these checks off."
    )
    check_s_per_day = models.FloatField(
        default=600, help_text="How many seconds of a day a GPU is checked at most; an operator may ask for more."
    )
    check_release = models.PositiveSmallIntegerField(
        default=0,
        help_text="After so many checks passed in a row a GPU whose trouble can heal, or a node that failed whatever "
        "came to it, takes jobs again by itself; 0: an operator decides. One that only failed a check needs one.",
    )

    shells = models.BooleanField(
        default=False, help_text="Whether who may act on a job may open a shell in it while it runs."
    )

    keep_failed_max_s = models.FloatField(
        default=0,
        help_text="For how many seconds at most what a failed job ran in may be kept, with its GPUs, for its owner to "
        "look at (`keep_failed` of its spec); 0: not at all.",
    )

    gang_network = models.CharField(
        max_length=64,
        blank=True,
        default="",
        validators=[GANG_NETWORK],
        help_text="Of containers of jobs on several nodes: host, the name of a network that spans the nodes, or "
        "refuse. Empty: what each node says, and if that says nothing, a network of the pool's own. A node may allow "
        "less.",
    )
    infiniband = models.BooleanField(
        default=False,
        help_text="Whether containers get their node's InfiniBand and may lock memory, unless the node says no.",
    )
    mount_roots = models.TextField(
        blank=True,
        default="",
        max_length=4000,
        validators=[require_roots],
        help_text="Folders of the nodes, one a line, below which volumes may lie, such as /data. Empty: nothing is "
        "mounted. A node may allow less.",
    )

    class Meta:
        constraints = [
            check("pool_offer_lease_positive", Q(offer_lease_s__gt=0)),
            check("pool_black_hole_s_positive", Q(black_hole_s__gt=0)),
            check("pool_check_every_a_minute_at_most", Q(check_every_s=0) | Q(check_every_s__gte=60)),
            check("pool_check_s_per_day_not_negative", Q(check_s_per_day__gte=0)),
            check("pool_keep_failed_up_to_a_week", Q(keep_failed_max_s__gte=0, keep_failed_max_s__lte=7 * 86_400)),
            check(
                "pool_strike_half_life_up_to_a_year",
                Q(strike_half_life_s__gt=0, strike_half_life_s__lte=MAX_HALF_LIFE_S),
            ),
            check(
                "pool_timers_in_order",
                Q(beat_s__gt=0)
                & Q(suspect_after_s__gt=F("beat_s"))
                & Q(unreachable_after_s__gte=F("suspect_after_s"))
                & Q(stop_after_s__gte=F("unreachable_after_s"))
                & Q(fence_margin_s__gt=0)
                & Q(max_grace_s__gte=0)
                & Q(claim_timeout_s__gt=0),
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def roots(self) -> tuple[str, ...]:
        return tuple(self.mount_roots.split())


class Node(models.Model):
    """A server. `admin` is what operators want of it, `health` what is known of it.

    `version` is raised by cordon, drain, health, inventory and labels, and by a cycle's claims for other cycles to
    see; never by a release. Heartbeats touch `NodeLease` only.
    """

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="nodes")
    name = models.CharField(max_length=63, unique=True, validators=[SLUG])
    address = models.CharField(max_length=255, blank=True, default="", help_text="Where other nodes reach it.")
    rack = models.CharField(max_length=63, blank=True, default="")
    admin = models.CharField(max_length=10, choices=choices(NodeAdmin), default=NodeAdmin.ACTIVE)
    health = models.CharField(max_length=10, choices=choices(NodeHealth), default=NodeHealth.PENDING)
    down_at = models.DateTimeField(null=True, editable=False, help_text="When it last went down.")
    gone_at = models.DateTimeField(
        null=True,
        editable=False,
        help_text="When an operator declared it gone: nothing is held there until it is resumed.",
    )
    gone_why = models.CharField(
        max_length=500, blank=True, default="", db_default="", editable=False, help_text="By whom, and why."
    )
    reason = models.CharField(max_length=500, blank=True, default="", help_text="Why it is cordoned or draining.")
    moves_jobs_off = models.BooleanField(
        default=False, help_text="Whether its preemptible jobs are stopped and queued again while it is draining."
    )
    barred = models.CharField(
        max_length=300, blank=True, default="", help_text="Why no job may start there, even if the node is active."
    )
    disk_full_at = models.DateTimeField(
        null=True, editable=False, help_text="Since when its agent says that its disk is full."
    )
    single_user = models.BooleanField(
        default=False,
        editable=False,
        help_text="Whether its agent runs all jobs as one account, so that a job can read and signal every other one.",
    )
    single_user_tenant = models.ForeignKey(
        "tenants.Tenant",
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        help_text="Whose jobs a single-user node takes. Empty: those of the only tenant with a virtual cluster in its "
        "pool; of no tenant if there are several.",
    )
    single_user_shared = models.BooleanField(
        default=False,
        help_text="Lets jobs of all tenants onto a single-user node. They are not protected from each other there.",
    )
    version = models.BigIntegerField(default=1)
    cpus = models.PositiveIntegerField(default=0)
    memory_mib = models.PositiveBigIntegerField(default=0)
    labels = models.JSONField(default=dict, blank=True)
    inventory = models.JSONField(default=dict, blank=True)
    links = models.JSONField(default=list, blank=True, help_text="How close each two GPUs are, by index: fleet.links.")
    agent_version = models.CharField(max_length=40, blank=True, default="")
    boot_id = models.CharField(max_length=64, blank=True, default="")
    state_id = models.CharField(
        max_length=64,
        default="",
        db_default="",
        editable=False,
        help_text="The state folder of its agent, as that names it.",
    )
    state_since = models.DateTimeField(
        null=True, editable=False, help_text="Since when its agent has that folder and no other."
    )
    nonce = models.CharField(max_length=64, blank=True, default="", help_text="What its next registration must carry.")
    join_digest = models.CharField(max_length=64, blank=True, default="")
    join_expires_at = models.DateTimeField(null=True, blank=True)
    credential_digest = models.CharField(max_length=64, blank=True, default="")
    resumed_at = models.DateTimeField(
        null=True, blank=True, help_text="When an operator last gave it back to the scheduler."
    )
    black_hole_at = models.DateTimeField(
        null=True, blank=True, help_text="Since when it is known to fail whatever comes to it."
    )
    given_back_at = models.DateTimeField(
        null=True, editable=False, help_text="When checks that passed last gave it back to the scheduler."
    )
    drained_for_gpu_at = models.DateTimeField(
        null=True,
        editable=False,
        help_text="Since when the platform has it drained for a GPU that failed; empty once anybody acts on it.",
    )
    checks = models.JSONField(
        default=list, editable=False, help_text="The checks that its agent is to do: fleet.checks."
    )
    must_report = models.BooleanField(
        default=False,
        db_default=False,
        editable=False,
        help_text="Whether nothing may start there until its agent has said what runs, since a restore.",
    )
    created_at = models.DateTimeField(db_default=DatabaseNow())

    class Meta:
        constraints = [
            one_of("admin", NodeAdmin, name="node_admin_known"),
            one_of("health", NodeHealth, name="node_health_known"),
            unique("node_credential", ["credential_digest"], ~Q(credential_digest="")),
            unique("node_join_token", ["join_digest"], ~Q(join_digest="")),
        ]

    def __str__(self) -> str:
        return self.name


class RunningJobs(StrEnum):
    """The treatment of a node's running jobs when its maintenance begins."""

    WAIT = "wait"
    """They end by themselves."""
    MOVE = "move"
    """Preemptible jobs save their work, stop and are queued again; the others end by themselves."""


class Maintenance(models.Model):
    """A time in which a node, or each node of a pool, is to be free of jobs. See `muster.fleet.maintenance`.

    `drained` has the ids of the nodes that were drained for it: those are given back in the end, unless an operator has
    done something else with them since.
    """

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="maintenance")
    node = models.ForeignKey(
        Node,
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="maintenance",
        help_text="Empty: all of them.",
    )
    begins_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    running_jobs = models.CharField(max_length=4, choices=choices(RunningJobs), default=RunningJobs.WAIT)
    reason = models.CharField(max_length=300)
    drained = models.JSONField(default=list, editable=False)
    begun_at = models.DateTimeField(null=True, editable=False)
    over_at = models.DateTimeField(null=True, editable=False, help_text="When it was over, or called off.")
    created_by = models.CharField(max_length=150, editable=False)
    created_at = models.DateTimeField(db_default=DatabaseNow(), editable=False)

    class Meta:
        verbose_name_plural = "maintenance"
        constraints = [
            one_of("running_jobs", RunningJobs, name="maintenance_running_jobs_known"),
            check("maintenance_ends_after_it_begins", Q(ends_at__gt=F("begins_at"))),
        ]
        indexes = [index("maintenance_not_over", ["pool"], Q(over_at=None))]

    def __str__(self) -> str:
        return f"maintenance {self.pk} of {self.what}"

    @property
    def what(self) -> str:
        """Its node or pool, in words."""
        return f"node {self.node.name}" if self.node else f"pool {self.pool.name}"


class Gpu(models.Model):
    """One GPU. Its id times 64 is the first of its slots in the claims' index."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="gpus")
    index = models.PositiveSmallIntegerField()
    uuid = models.CharField(max_length=80, unique=True)
    type = models.CharField(max_length=63, help_text="The model as jobs name it, such as A100.")
    model = models.CharField(max_length=120, blank=True, default="")
    memory_mib = models.PositiveIntegerField(default=0)
    numa_node = models.PositiveSmallIntegerField(null=True)
    health = models.CharField(max_length=10, choices=choices(HealthLevel), default=HealthLevel.OK)
    health_at = models.DateTimeField(null=True, help_text="Since when it is so; null for one that always was well.")
    health_why = models.CharField(max_length=200, blank=True, default="", help_text="Why it is not well.")
    heals = models.CharField(
        max_length=10,
        choices=choices(Recovers),
        blank=True,
        default="",
        help_text="By what it can come back by itself.",
    )
    failed_boot = models.CharField(
        max_length=64, blank=True, default="", help_text="The boot of its node in which it failed so last."
    )
    healthy = models.GeneratedField(
        expression=~Q(health=HealthLevel.FAILURE.value),  # type: ignore[arg-type]  # the stubs know of no Q
        output_field=models.BooleanField(),
        db_persist=True,
    )
    present = models.BooleanField(default=True, help_text="False once the agent no longer reports it.")

    class Meta:
        verbose_name = "GPU"
        verbose_name_plural = "GPUs"
        constraints = [
            unique("gpu_index", ["node", "index"], Q(present=True)),
            one_of("health", HealthLevel, name="gpu_health_known"),
        ]

    def __str__(self) -> str:
        return f"{self.type} {self.index}"


class Strike(models.Model):
    """A failure that a node is blamed for, kept when it no longer counts. See `muster.fleet.strikes`."""

    id = models.BigAutoField(primary_key=True)
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="strikes")
    gpu = models.ForeignKey(Gpu, on_delete=models.SET_NULL, null=True, related_name="strikes")
    job_id = models.BigIntegerField()
    attempt_id = models.BigIntegerField()
    reason = models.CharField(max_length=20, choices=choices(StrikeReason))
    detail = models.CharField(max_length=500, blank=True, default="")
    incident = models.CharField(max_length=120, help_text="What happened, so that it counts once for the node.")
    at = models.DateTimeField(db_default=DatabaseNow())
    forgiven_at = models.DateTimeField(null=True, help_text="Since when it no longer counts, by an operator's word.")

    class Meta:
        constraints = [
            one_of("reason", StrikeReason, name="strike_reason_known"),
            unique("strike_once_an_incident", ["node", "incident"]),
        ]
        indexes = [
            index("strike_of_node", ["node", "-at"]),
            index("strike_of_job", ["job_id"]),
        ]

    def __str__(self) -> str:
        return f"{self.reason} on node {self.node_id}"


class HealthReport(models.Model):
    """A problem that an agent reported of a GPU or of its node; one row while it goes on. See `muster.fleet.health`."""

    id = models.BigAutoField(primary_key=True)
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="health_reports")
    gpu = models.ForeignKey(Gpu, on_delete=models.SET_NULL, null=True, related_name="health_reports")
    kind = models.CharField(max_length=60)
    xid = models.PositiveIntegerField(null=True)
    level = models.CharField(max_length=10, choices=choices(HealthLevel))
    action = models.CharField(max_length=20, choices=choices(Action))
    words = models.CharField(max_length=200, help_text="The meaning of the problem.")
    detail = models.CharField(max_length=500, blank=True, default="", help_text="What the agent wrote.")
    count = models.PositiveIntegerField(default=1)
    at = models.DateTimeField(db_default=DatabaseNow())
    last_at = models.DateTimeField(db_default=DatabaseNow())
    over_at = models.DateTimeField(null=True, help_text="When it ceased to count.")

    class Meta:
        constraints = [
            one_of("level", HealthLevel, name="health_report_level_known"),
            one_of("action", Action, name="health_report_action_known"),
        ]
        indexes = [index("health_of_node", ["node", "-at"])]

    def __str__(self) -> str:
        return f"{self.kind} on node {self.node_id}"


class GpuCheck(models.Model):
    """The checks of one GPU: what came of the last one, and when the next is due. See `muster.fleet.checks`."""

    gpu = models.OneToOneField(Gpu, on_delete=models.CASCADE, primary_key=True, related_name="check_row")
    number = models.BigIntegerField(default=0, help_text="How many were asked for; the newest has this number.")
    asked_at = models.DateTimeField(null=True, help_text="Since when one is wanted.")
    asked_by = models.CharField(max_length=150, blank=True, default="")
    due_at = models.DateTimeField(null=True, help_text="When the next one is to be asked for.")
    in_doubt = models.BooleanField(default=False, help_text="Whether something speaks against the GPU or its node.")
    at = models.DateTimeField(null=True, help_text="When the newest result came.")
    result = models.CharField(max_length=10, choices=choices(CheckResult), blank=True, default="")
    how = models.CharField(max_length=20, blank=True, default="")
    detail = models.CharField(max_length=500, blank=True, default="")
    duration_s = models.FloatField(default=0)
    tflops = models.FloatField(null=True)
    gb_s = models.FloatField(null=True)
    streak = models.IntegerField(default=0, help_text="How many passed in a row; below 0, how many failed.")
    day = models.DateField(null=True)
    used_s = models.FloatField(default=0, help_text="What checks took of that day.")
    given_back_at = models.DateTimeField(null=True, help_text="When checks that passed last gave it back.")

    class Meta:
        constraints = [one_of("result", CheckResult, name="gpu_check_result_known")]
        indexes = [
            index("gpu_check_due", ["due_at"], Q(asked_at=None)),
            index("gpu_check_asked", ["asked_at"], Q(asked_at__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"checks of GPU {self.pk}"


class GpuReading(models.Model):
    """The newest reading of one GPU. Narrow, so that a write every few seconds touches nothing else."""

    gpu = models.OneToOneField(Gpu, on_delete=models.CASCADE, primary_key=True, related_name="reading")
    at = models.DateTimeField(db_default=DatabaseNow())
    utilization = models.FloatField(null=True)
    memory_used_mib = models.FloatField(null=True)
    power_w = models.FloatField(null=True)
    temperature_c = models.FloatField(null=True)
    processes = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return f"reading of GPU {self.pk}"


class NodeDisk(models.Model):
    """Free space on the disk that a node's jobs fill, as its agent reported last. See `muster.fleet.disks`."""

    node = models.OneToOneField(Node, on_delete=models.CASCADE, primary_key=True, related_name="disk")
    at = models.DateTimeField(db_default=DatabaseNow())
    size_mib = models.BigIntegerField()
    free_mib = models.BigIntegerField()

    def __str__(self) -> str:
        return f"disk of node {self.pk}"


class NodeLease(models.Model):
    """The right of one registration of an agent to speak for its node; renewed by beats, in one narrow UPDATE."""

    node = models.OneToOneField(Node, on_delete=models.CASCADE, primary_key=True, related_name="lease")
    epoch = models.BigIntegerField(default=0)
    state = models.CharField(max_length=10, choices=choices(LeaseState), default=LeaseState.GRANTED)
    seq = models.BigIntegerField(default=0)
    granted_at = models.DateTimeField(db_default=DatabaseNow())
    seen_at = models.DateTimeField(db_default=DatabaseNow())

    class Meta:
        constraints = [one_of("state", LeaseState, name="lease_state_known")]

    def __str__(self) -> str:
        return f"epoch {self.epoch} of node {self.pk}"


class Tick(models.Model):
    """The last sign of life of a part of the platform: `web` answers calls, `reaper` looks for lost nodes, `links`
    keeps the links, and the workers `schedule` and `default` do their rounds.

    A silence that is the platform's own must cost no node its lease.
    """

    name = models.CharField(max_length=20, primary_key=True)
    at = models.DateTimeField(db_default=DatabaseNow())
    answering_since = models.DateTimeField(db_default=DatabaseNow())

    def __str__(self) -> str:
        return self.name
