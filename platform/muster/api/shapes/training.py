"""How the training of a job goes, and what there is to say of it."""

from __future__ import annotations

from rest_framework import serializers

from muster.api.shapes.common import Integer, Moment, Number, Shape, Text
from scheduler.training import Kind


class NewestFigure(Shape):
    """The newest value of a figure that the job told of itself."""

    name = Text()
    step = Number(allow_null=True)
    value = Number(allow_null=True, help_text="Null: it was no finite number.")
    at = Moment()


class AdviceGiven(Shape):
    """What the owner was told of the job's loss."""

    kind = serializers.ChoiceField(choices=[kind.value for kind in Kind])
    text = Text()
    step = Number()
    attempt = Integer()
    at = Moment()


class CheckpointInterval(Shape):
    """How often the job should save, and what that follows from."""

    daly_s = Number(help_text="Seconds of work between two checkpoints, by Daly (2006).")
    young_s = Number(help_text="The same by Young (1974).")
    cost_s = Number(help_text="What one checkpoint takes.")
    measured = serializers.ChoiceField(
        choices=["reported", "stops"], help_text="By the job, or by how long it took to go."
    )
    measurements = Integer()
    mtbf_s = Number(help_text="How far failures of its nodes are apart on average.")
    failures = Integer(help_text="Of the pool's nodes under jobs, in the last 30 days.")
    node_hours = Number(help_text="That the pool's nodes ran jobs, in the last 30 days.")
    lost_share = Number(help_text="The part of the time that checkpoints and work done again cost then.")


class RuleMatched(Shape):
    """A rule of the operators that a line of the job's log has matched."""

    rule = Text()
    line = Text()
    actions = serializers.ListField(child=Text())
    attempt = Integer()
    rank = Integer()
    node = Text()
    at = Moment()


class JobTraining(Shape):
    """How the training of a job goes."""

    newest = NewestFigure(many=True)
    advice = AdviceGiven(many=True)
    checkpoint = CheckpointInterval(allow_null=True, help_text="Null: nobody knows what a checkpoint costs it.")
    rules = RuleMatched(many=True)
