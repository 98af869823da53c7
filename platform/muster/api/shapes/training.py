"""How the training of a job goes, and what there is to say of it."""

from __future__ import annotations

from rest_framework import serializers

from muster.api.shapes.common import Integer, Moment, Number, Shape, Text
from scheduler.diagnosis.training import Kind


class NewestFigure(Shape):
    """The newest value of a figure that the job told of itself."""

    name = Text(help_text="The figure's name, such as `loss`.")
    step = Number(allow_null=True, help_text="The step at which the job reported it; null if it named none.")
    value = Number(allow_null=True, help_text="Null: it was no finite number.")
    at = Moment(help_text="When the platform received it.")


class AdviceGiven(Shape):
    """What the owner was told of the job's loss."""

    kind = serializers.ChoiceField(choices=[kind.value for kind in Kind], help_text="What was noticed in the loss.")
    text = Text(help_text="The advice as the owner reads it.")
    step = Number(help_text="The training step at which it was noticed.")
    attempt = Integer(help_text="The number of the attempt.")
    at = Moment(help_text="When it was noticed.")


class CheckpointInterval(Shape):
    """How often the job should save, and what that follows from."""

    daly_s = Number(help_text="Seconds of work between two checkpoints, by Daly (2006).")
    young_s = Number(help_text="The same by Young (1974).")
    cost_s = Number(help_text="What one checkpoint takes.")
    measured = serializers.ChoiceField(
        choices=["reported", "stops"], help_text="By the job, or by how long it took to go."
    )
    measurements = Integer(help_text="Number of measurements behind `cost_s`.")
    mtbf_s = Number(help_text="How far failures of its nodes are apart on average.")
    failures = Integer(help_text="Of the pool's nodes under jobs, in the last 30 days.")
    node_hours = Number(help_text="That the pool's nodes ran jobs, in the last 30 days.")
    lost_share = Number(help_text="The part of the time that checkpoints and work done again cost then.")


class RuleMatched(Shape):
    """A rule of the operators that a line of the job's log has matched."""

    rule = Text(help_text="The name of the rule.")
    line = Text(help_text="The line of the log that matched.")
    actions = serializers.ListField(child=Text(), help_text="What the platform did about it.")
    attempt = Integer(help_text="The number of the attempt.")
    rank = Integer(help_text="The rank whose log it was.")
    node = Text(help_text="The name of the node that ran the rank.")
    at = Moment(help_text="When the line matched.")


class JobTraining(Shape):
    """How the training of a job goes."""

    newest = NewestFigure(many=True, help_text="The newest value of each figure that the job reported.")
    advice = AdviceGiven(many=True, help_text="What the owner was told of the loss.")
    checkpoint = CheckpointInterval(allow_null=True, help_text="Null: the cost of a checkpoint is not known.")
    rules = RuleMatched(many=True, help_text="Rules of the operators that lines of the log matched.")
