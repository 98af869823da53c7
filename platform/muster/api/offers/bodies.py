"""Bodies of requests of frameworks."""

from rest_framework import serializers

from muster.api.fields import Choice, Integer, Shape, Text, values
from muster.api.jobs.bodies import SpecField
from scheduler.model.lifecycle import RuntimeNeed

MAX_WAIT_S = 30


class NewFramework(Shape):
    """The role to register in, and the form in which its jobs start."""

    role = Text(max_length=63, help_text="The name of the role, which must be in a tenant of yours.")
    needs = Choice(
        choices=values(RuntimeNeed),
        default=RuntimeNeed.ANY.value,
        help_text=("The form in which the framework's jobs start; only nodes that can start it are offered."),
    )


class OfferQuery(Shape):
    """The time to wait, and the offers to wait for."""

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
    """Jobs to launch on an offer; for the time of `filter` the rest of the node is not offered."""

    jobs = Launched(many=True, help_text="The jobs to launch on the offer.")
    filter = Text(
        default="5s",
        max_length=20,
        help_text="The time for which the rest of the node is not offered, such as 30s or 10m; at most 24h.",
    )


class Decline(Shape):
    """The time for which the node is not offered."""

    filter = Text(
        default="5s",
        max_length=20,
        help_text=(
            "The time for which the node is not offered to the framework again, such as 30s or 10m; at most 24h."
        ),
    )
