"""Roles, frameworks, their offers, and the jobs that they launched."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from muster.common.models import DatabaseNow, check, choices, empty_when, index, one_of, unique
from muster.fleet.models import SLUG, Gpu, Node
from muster.jobs.models import Job
from muster.tenants.models import VirtualCluster
from scheduler.model.lifecycle import OfferState, RuntimeNeed


class Role(models.Model):
    """A part of a virtual cluster that is offered to frameworks instead of being scheduled by the pool."""

    name = models.CharField(max_length=63, unique=True, validators=[SLUG])
    vc = models.ForeignKey(VirtualCluster, on_delete=models.PROTECT, related_name="roles")
    weight = models.FloatField(default=1, help_text="Its share beside the pool's other roles.")
    revocable = models.BooleanField(
        default=False, help_text="What is launched on its offers is opportunistic and may be preempted."
    )
    created_at = models.DateTimeField(db_default=DatabaseNow())

    class Meta:
        constraints = [check("role_weight_positive", Q(weight__gt=0))]

    def __str__(self) -> str:
        return self.name


class Framework(models.Model):
    """A user's scheduler in a role. It gets offers while it asks; `seen_at` is the time of its last request."""

    role = models.ForeignKey(Role, on_delete=models.CASCADE, related_name="frameworks")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="frameworks")
    registered_at = models.DateTimeField(db_default=DatabaseNow())
    needs = models.CharField(
        max_length=20,
        choices=choices(RuntimeNeed),
        default=RuntimeNeed.ANY,
        db_default=RuntimeNeed.ANY.value,
        help_text="In what form its jobs start: it is offered no node that cannot start such a job.",
    )
    seen_at = models.DateTimeField(null=True, help_text="When it last asked for offers; empty once it has left.")

    class Meta:
        constraints = [
            unique("framework_once_in_a_role", ["role", "user"]),
            one_of("needs", RuntimeNeed, name="framework_needs_known"),
        ]

    def __str__(self) -> str:
        return f"{self.user}'s framework in {self.role}"


class Offer(models.Model):
    """A lease on GPUs, CPUs and memory of one node, for one framework to launch jobs on or to decline.

    An offer past `expires_at` has ended, whatever its state; the next cycle of the pool updates the state.
    """

    id = models.BigAutoField(primary_key=True)
    framework = models.ForeignKey(Framework, on_delete=models.CASCADE, related_name="offers")
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="offers")
    state = models.CharField(max_length=10, choices=choices(OfferState), default=OfferState.STANDING)
    gpu_ids = models.JSONField()
    cpus = models.PositiveIntegerField()
    memory_mib = models.PositiveBigIntegerField()
    made_at = models.DateTimeField(db_default=DatabaseNow())
    expires_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    detail = models.CharField(max_length=500, default="", blank=True)

    class Meta:
        constraints = [
            one_of("state", OfferState, name="offer_state_known"),
            empty_when("ended_at", "offer_ended_has_time", state=OfferState.STANDING),
        ]
        indexes = [
            index("offer_standing", ["framework", "id"], Q(state=OfferState.STANDING)),
            index("offer_age", ["ended_at"], Q(ended_at__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"offer {self.pk}"


class OfferedGpu(models.Model):
    """A GPU of a standing offer. The database refuses a second offer of the same GPU."""

    gpu = models.OneToOneField(Gpu, on_delete=models.CASCADE, primary_key=True, related_name="offered")
    offer = models.ForeignKey(Offer, on_delete=models.CASCADE, related_name="gpus")

    def __str__(self) -> str:
        return f"GPU {self.gpu_id} of offer {self.offer_id}"


class OfferFilter(models.Model):
    """A framework's refusal of a node until a moment."""

    framework = models.ForeignKey(Framework, on_delete=models.CASCADE, related_name="filters")
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="+")
    until = models.DateTimeField()

    class Meta:
        constraints = [unique("offer_filter_once", ["framework", "node"])]

    def __str__(self) -> str:
        return f"{self.framework_id} wants nothing of node {self.node_id}"


class Launch(models.Model):
    """A job that a framework launched on an offer. Its resources count for the framework and its role."""

    job = models.OneToOneField(Job, on_delete=models.CASCADE, primary_key=True, related_name="launch")
    framework = models.ForeignKey(Framework, on_delete=models.CASCADE, related_name="launches")
    offer = models.ForeignKey(Offer, on_delete=models.SET_NULL, null=True, related_name="launches")

    def __str__(self) -> str:
        return f"job {self.job_id} of framework {self.framework_id}"
