"""What GPUs, jobs and nodes used over time."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from muster.api.shapes.common import Integer, Moment, Number, Shape, Text
from muster.common.errors import Invalid

MAX_STEP_S = 86_400


class FigureOverTime(Shape):
    """One figure: a value for each entry of `times`, null where nothing was measured."""

    name = Text(help_text="The figure's name.")
    unit = Text(help_text="percent, MiB, W, °C, MHz, errors, processes, cores, bytes/s or load.")
    mean = serializers.ListField(child=Number(allow_null=True), help_text="The mean of each step.")
    max = serializers.ListField(child=Number(allow_null=True), help_text="The largest single reading of each step.")


class GpuOverTime(Shape):
    """The figures of one GPU."""

    uuid = Text(help_text="The GPU's UUID.")
    index = Integer(help_text="The GPU's index on its node.")
    node = Text(help_text="The name of its node.")
    type = Text(help_text="The GPU's type.")
    memory_mib = Integer(help_text="The GPU's memory in MiB.")
    rank = Integer(allow_null=True, help_text="The rank that holds it; null for a node's.")
    figures = FigureOverTime(many=True, help_text="Those that were measured.")


class RankOverTime(Shape):
    """What one rank of a job used of its host."""

    rank = Integer(help_text="The rank, from 0.")
    node = Text(help_text="The name of the node that runs it.")
    cpus = Integer(help_text="What it has been given.")
    memory_mib = Integer(help_text="What it has been given.")
    figures = FigureOverTime(many=True, help_text="The figures that were measured.")


class HostOverTime(Shape):
    """The figures of a node as a whole."""

    cpus = Integer(help_text="CPUs of the node.")
    memory_mib = Integer(help_text="Memory of the node in MiB.")
    figures = FigureOverTime(many=True, help_text="The figures that were measured.")


class Metrics(Shape):
    """A window of time in steps; `from` and `to` are multiples of the step, so they may lie around what was asked."""

    to = Moment(help_text="The end of the window.")
    step_s = Integer(help_text="The length of one step in seconds.")
    times = serializers.ListField(child=Integer(), help_text="The beginning of each step, in seconds since 1970.")

    def get_fields(self) -> dict[str, serializers.Field]:  # type: ignore[type-arg]
        """The fields above, and `from`, which Python cannot spell as an attribute."""
        return {"from": Moment(help_text="The beginning of the window."), **super().get_fields()}


class ReportedSeries(Shape):
    """A figure that the job told of itself, over its own steps: each point is the mean of what lies before it."""

    name = Text(help_text="The figure's name.")
    from_log = serializers.BooleanField(help_text="Read from lines of its log; else the job reported it.")
    steps = serializers.ListField(child=Number(), help_text="The step of each point.")
    values = serializers.ListField(child=Number(allow_null=True), help_text="Null where it was no finite number.")
    step = Number(allow_null=True, help_text="The newest one.")
    value = Number(allow_null=True, help_text="The newest one; null where it is no finite number.")


class JobMetrics(Metrics):
    """What an attempt used. On a GPU that jobs share, the figures are those of the whole GPU."""

    attempt = Integer(allow_null=True, help_text="Null: the job has none yet.")
    gpus = GpuOverTime(many=True, help_text="The GPUs of the attempt, by rank and index.")
    ranks = RankOverTime(many=True, help_text="The ranks of the attempt.")
    reported = ReportedSeries(many=True, help_text="Figures that the job reported of itself.")


class NodeMetrics(Metrics):
    """What a node's GPUs and the node itself did."""

    gpus = GpuOverTime(many=True, help_text="The node's GPUs, by index.")
    host = HostOverTime(help_text="The node itself.")


class MetricsFilter(Shape):
    """Which time, and how finely. The answer has 500 steps at most, and no finer ones than are still kept."""

    to = Moment(required=False, help_text="Now by default.")
    step = Integer(required=False, default=0, min_value=0, max_value=MAX_STEP_S, help_text="Seconds, at least.")

    def get_fields(self) -> dict[str, serializers.Field]:  # type: ignore[type-arg]
        """The fields above, and `from`."""
        return {"from": Moment(required=False, help_text="An hour before `to` by default."), **super().get_fields()}

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """The times in order."""
        if "from" in attrs and "to" in attrs and attrs["from"] >= attrs["to"]:
            raise Invalid.field("from", "it must be before `to`")
        return attrs


class JobMetricsFilter(MetricsFilter):
    """Which attempt and time; by default the latest attempt from its start to its end."""

    attempt = Integer(
        required=False, min_value=1, max_value=1 << 31, help_text="The attempt's number; the latest by default."
    )

    def get_fields(self) -> dict[str, serializers.Field]:  # type: ignore[type-arg]
        """The fields above, with what is the default here."""
        return {
            **super().get_fields(),
            "from": Moment(required=False, help_text="When the attempt was placed by default."),
            "to": Moment(required=False, help_text="When the attempt ended, or now, by default."),
        }
