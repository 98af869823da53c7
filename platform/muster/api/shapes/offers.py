"""Frameworks and what they are offered."""

from __future__ import annotations

from rest_framework import serializers

from muster.api.shapes.common import Choice, Flag, Integer, Moment, Shape, Text, values
from muster.api.shapes.jobs import JobInList, SpecField
from scheduler.model.lifecycle import RuntimeNeed

MAX_WAIT_S = 30


class NewFramework(Shape):
    """The role to register in, and in what form its jobs start: no other nodes are offered."""

    role = Text(max_length=63, help_text="The name of the role, which must be in a tenant of yours.")
    needs = Choice(
        choices=values(RuntimeNeed),
        default=RuntimeNeed.ANY.value,
        help_text=("The form in which the framework's jobs start; only nodes that can start it are offered."),
    )


class Framework(Shape):
    """The caller's scheduler in a role."""

    id = Integer(help_text="The id of the framework.")
    role = Text(help_text="The name of the role.")
    vc = Text(help_text="The virtual cluster of the role.")
    pool = Text(help_text="The pool of the virtual cluster.")
    revocable = Flag(help_text="What it launches is opportunistic and may be preempted.")
    needs = Choice(choices=values(RuntimeNeed), help_text="In what form its jobs start.")
    registered_at = Moment(help_text="When the framework registered.")


class FrameworkList(Shape):
    """The caller's frameworks."""

    results = Framework(many=True, help_text="The frameworks.")
    next = Text(allow_null=True, help_text="Always null: the list comes whole.")


class OfferedGpu(Shape):
    """A GPU of an offer."""

    uuid = Text(help_text="The UUID that the driver gives the GPU.")
    index = Integer(help_text="The number of the GPU on its node, from 0.")
    type = Text(help_text="The GPU type.")
    memory_mib = Integer(help_text="The memory of the GPU in MiB.")


class Offer(Shape):
    """What is free on a node, kept for the framework until `expires_at`."""

    id = Integer(help_text="The id of the offer.")
    framework = Integer(help_text="The id of the framework that gets the offer.")
    role = Text(help_text="The name of the framework's role.")
    node = Text(help_text="The name of the node.")
    runtimes = serializers.ListField(
        child=Text(), help_text="What the node runs jobs in, process, docker or podman; empty: its agent has not said."
    )
    starts = serializers.ListField(
        child=Choice(choices=values(RuntimeNeed)),
        help_text="The forms of the jobs that the node starts; empty: its agent has not said.",
    )
    gpus = OfferedGpu(many=True, help_text="The offered GPUs.")
    cpus = Integer(help_text="The number of offered CPU cores.")
    memory_mib = Integer(help_text="The offered memory in MiB.")
    revocable = Flag(help_text="Whether jobs launched on the offer are opportunistic and may be preempted.")
    made_at = Moment(help_text="When the offer was made.")
    expires_at = Moment(help_text="When the offer ends unless it is accepted.")


class OfferList(Shape):
    """The standing offers of the caller's frameworks, oldest first."""

    results = Offer(many=True, help_text="The offers.")
    next = Text(allow_null=True, help_text="Always null: the list comes whole.")


class OfferQuery(Shape):
    """How long to wait, and for what."""

    wait = Integer(default=MAX_WAIT_S, min_value=0, max_value=MAX_WAIT_S, help_text="Seconds to wait for an offer.")
    after = Integer(default=0, min_value=0, max_value=2**62, help_text="Wait for an offer with a larger id than this.")


class Launched(Shape):
    """A job to launch, and the UUIDs of the GPUs that it gets; without, the first that fit."""

    spec = SpecField(help_text="The spec of the job.")
    gpus = serializers.ListField(
        child=Text(max_length=80),
        required=False,
        max_length=1024,
        help_text="The UUIDs of the offered GPUs that the job gets; by default the first that fit.",
    )


class Accept(Shape):
    """What to launch on an offer; `filter` is for how long to hear nothing of the node if anything is left of it."""

    jobs = Launched(many=True, help_text="The jobs to launch on the offer.")
    filter = Text(
        default="5s",
        max_length=20,
        help_text="How long not to offer what is left of the node, such as 30s or 10m; at most 24h.",
    )


class Accepted(Shape):
    """The jobs, which have their GPUs."""

    jobs = JobInList(many=True, help_text="The launched jobs.")


class Decline(Shape):
    """For how long to hear nothing of the node."""

    filter = Text(
        default="5s",
        max_length=20,
        help_text=("How long not to offer the node to the framework again, such as 30s or 10m; at most 24h."),
    )
