"""Frameworks and what they are offered."""

from __future__ import annotations

from rest_framework import serializers

from muster.api.shapes.common import Choice, Flag, Integer, Moment, Shape, Text, values
from muster.api.shapes.jobs import JobInList, SpecField
from scheduler.lifecycle import Form

LONGEST_WAIT_S = 30


class NewFramework(Shape):
    """The role to register in, and in what form its jobs start: no other nodes are offered."""

    role = Text(max_length=63)
    needs = Choice(choices=values(Form), default=Form.ANY.value)


class Framework(Shape):
    """The caller's scheduler in a role."""

    id = Integer()
    role = Text()
    vc = Text()
    pool = Text()
    revocable = Flag(help_text="What it launches is opportunistic and may be preempted.")
    needs = Choice(choices=values(Form), help_text="In what form its jobs start.")
    registered_at = Moment()


class FrameworkList(Shape):
    """The caller's frameworks."""

    results = Framework(many=True)
    next = Text(allow_null=True)


class OfferedGpu(Shape):
    """A GPU of an offer."""

    uuid = Text()
    index = Integer()
    type = Text()
    memory_mib = Integer()


class Offer(Shape):
    """What is free on a node, kept for the framework until `expires_at`."""

    id = Integer()
    framework = Integer()
    role = Text()
    node = Text()
    runtimes = serializers.ListField(
        child=Text(), help_text="What the node runs jobs in, process, docker or podman; empty: its agent has not said."
    )
    starts = serializers.ListField(
        child=Choice(choices=values(Form)),
        help_text="The forms of the jobs that the node starts; empty: its agent has not said.",
    )
    gpus = OfferedGpu(many=True)
    cpus = Integer()
    memory_mib = Integer()
    revocable = Flag()
    made_at = Moment()
    expires_at = Moment()


class OfferList(Shape):
    """The standing offers of the caller's frameworks, oldest first."""

    results = Offer(many=True)
    next = Text(allow_null=True)


class OfferQuery(Shape):
    """How long to wait, and for what."""

    wait = Integer(
        default=LONGEST_WAIT_S, min_value=0, max_value=LONGEST_WAIT_S, help_text="Seconds to wait for an offer."
    )
    after = Integer(default=0, min_value=0, max_value=2**62, help_text="Wait for an offer with a larger id than this.")


class Launched(Shape):
    """A job to launch, and the UUIDs of the GPUs that it gets; without, the first that fit."""

    spec = SpecField()
    gpus = serializers.ListField(child=Text(max_length=80), required=False, max_length=1024)


class Accept(Shape):
    """What to launch on an offer; `filter` is for how long to hear nothing of the node if anything is left of it."""

    jobs = Launched(many=True)
    filter = Text(default="5s", max_length=20)


class Accepted(Shape):
    """The jobs, which have their GPUs."""

    jobs = JobInList(many=True)


class Decline(Shape):
    """For how long to hear nothing of the node."""

    filter = Text(default="5s", max_length=20)
