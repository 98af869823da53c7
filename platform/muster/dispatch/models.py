"""The records of cycles and of solves outside them, the planners of pools, and what policies remember."""

from __future__ import annotations

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from muster.common.models import DatabaseNow, index, unique
from muster.fleet.models import SLUG, Pool
from muster.tenants.models import VirtualCluster


class Cycle(models.Model):
    """One snapshot, decision and application of a plan in a pool.

    A cycle that placed a job or changed a pending reason keeps its snapshot, configuration and plan for replay. One
    that changed nothing keeps only its counters. A failed cycle applied nothing: `error` says why.
    """

    id = models.BigAutoField(primary_key=True)
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="cycles")
    started_at = models.DateTimeField(db_default=DatabaseNow())
    planner = models.CharField(max_length=63, default="", blank=True, help_text="Empty: the pool's default planner.")
    trigger = models.CharField(max_length=10, help_text="hint, sweep, timer or command")
    snapshot_ms = models.FloatField(default=0)
    decide_ms = models.FloatField(default=0)
    apply_ms = models.FloatField(default=0)
    waiting = models.PositiveIntegerField(default=0)
    placed = models.PositiveIntegerField(default=0)
    reserved = models.PositiveIntegerField(default=0, help_text="Jobs that start once others have stopped.")
    preempted = models.PositiveIntegerField(default=0)
    held = models.PositiveIntegerField(default=0)
    repeats = models.PositiveIntegerField(default=0, help_text="How many later cycles changed nothing either.")
    refused = models.PositiveIntegerField(default=0)
    refusals = models.JSONField(default=list)
    error = models.TextField(default="", blank=True, help_text="Why nothing of the plan was carried out.")
    violations = models.JSONField(default=list, help_text="The invariants that the plan would have violated.")
    snapshot = models.BinaryField(null=True, help_text="Compressed JSON.")
    config = models.JSONField(null=True)
    plan = models.BinaryField(null=True, help_text="Compressed JSON.")
    target = models.ForeignKey("Target", null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        indexes = [index("cycle_of_pool", ["pool", "-id"])]

    def __str__(self) -> str:
        return f"cycle {self.pk}"

    @property
    def duration_ms(self) -> float:
        """From the snapshot to the end of the application."""
        return self.snapshot_ms + self.decide_ms + self.apply_ms


class Planner(models.Model):
    """Decides on the jobs of some virtual clusters of a pool; its default planner has the others, and its settings.

    Quota admission is the pool's: it bounds what all its planners give together.
    """

    id = models.BigAutoField(primary_key=True)
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="planners")
    name = models.CharField(max_length=63, validators=[SLUG])
    policy = models.CharField(max_length=40, default="fifo")
    policy_params = models.JSONField(default=dict, blank=True)
    placement = models.CharField(max_length=40, default="consolidate")
    placement_params = models.JSONField(default=dict, blank=True)
    all_or_nothing = models.BooleanField(
        default=False,
        help_text="If another planner was faster for one place of a plan, nothing of the plan is applied.",
    )
    fallback = models.JSONField(null=True, blank=True, editable=False)

    class Meta:
        constraints = [unique("planner_name_once_a_pool", ["pool", "name"])]

    def __str__(self) -> str:
        return f"{self.name} of pool {self.pool.name}"


class PlannedCluster(models.Model):
    """A virtual cluster that has a planner other than the default one of its pool."""

    vc = models.OneToOneField(VirtualCluster, on_delete=models.CASCADE, primary_key=True, related_name="planned_by")
    planner = models.ForeignKey(Planner, on_delete=models.CASCADE, related_name="clusters")

    def __str__(self) -> str:
        return f"virtual cluster {self.vc_id} of planner {self.planner_id}"


class Remembered(models.Model):
    """The state of a policy, and the time at which it wants to decide again without an event."""

    policy = models.CharField(max_length=100, default="", blank=True)
    version = models.PositiveIntegerField(default=0, help_text="The version in which the policy wrote its data.")
    data = models.JSONField(default=dict)
    wake_at = models.DateTimeField(null=True, db_index=True)

    class Meta:
        abstract = True


class PolicyState(Remembered):
    """The state of the policy of a pool's default planner."""

    pool = models.OneToOneField(Pool, on_delete=models.CASCADE, primary_key=True, related_name="policy_state")

    def __str__(self) -> str:
        return f"state of {self.policy or 'no policy'} in pool {self.pool_id}"


class PlannerState(Remembered):
    """The state of the policy of another planner."""

    planner = models.OneToOneField(Planner, on_delete=models.CASCADE, primary_key=True, related_name="policy_state")

    def __str__(self) -> str:
        return f"state of {self.policy or 'no policy'} of planner {self.planner_id}"


class Lane(models.Model):
    """A pool whose policy solves outside the lock, in a process of its own. Its cycles carry out what it stores."""

    class Mode(models.TextChoices):
        OFF = "off", "Off: cycles decide by the policy"
        SHADOW = "shadow", "Shadow: targets are stored and compared"
        ON = "on", "On: cycles carry out targets"

    pool = models.OneToOneField(Pool, on_delete=models.CASCADE, primary_key=True, related_name="lane")
    mode = models.CharField(max_length=6, choices=Mode, default=Mode.SHADOW)
    limit_s = models.PositiveIntegerField(
        default=30, validators=[MinValueValidator(1), MaxValueValidator(3600)], help_text="A longer solve is discarded."
    )
    fill_policy = models.CharField(
        max_length=100, default="fifo", help_text="The policy by which cycles fill what a target leaves."
    )
    fill_params = models.JSONField(default=dict, blank=True)

    def __str__(self) -> str:
        return f"lane of pool {self.pool_id}"


class Target(models.Model):
    """One solve of a lane: its snapshot, configuration and plan, and what became of it."""

    class State(models.TextChoices):
        STORED = "stored", "Stored"
        COMPARED = "compared", "Compared"
        APPLIED = "applied", "Applied"
        SUPERSEDED = "superseded", "Superseded"
        DISCARDED = "discarded", "Discarded"

    id = models.BigAutoField(primary_key=True)
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="targets")
    made_at = models.DateTimeField(db_default=DatabaseNow())
    solve_ms = models.FloatField(default=0)
    state = models.CharField(max_length=10, choices=State, default=State.STORED)
    reason = models.TextField(default="", blank=True, help_text="Why it was discarded.")
    places = models.PositiveIntegerField(default=0)
    preempts = models.PositiveIntegerField(default=0)
    dropped = models.JSONField(default=dict, blank=True, help_text="Why parts of it were not carried out, by job.")
    agreement = models.JSONField(default=dict, blank=True, help_text="In shadow: where the cycles placed its jobs.")
    wake_at = models.DateTimeField(null=True, help_text="When its policy wants to decide again without an event.")
    config = models.JSONField()
    snapshot = models.BinaryField(null=True, help_text="Compressed JSON.")
    plan = models.BinaryField(null=True, help_text="Compressed JSON.")

    class Meta:
        indexes = [index("target_of_pool", ["pool", "-id"])]

    def __str__(self) -> str:
        return f"target {self.pk}"
