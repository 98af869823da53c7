"""The use of GPUs, jobs and nodes over time, and the progress of a job's training."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from muster_client.answers.terms import AdviceKind, Moment


class FigureOverTime(TypedDict):
    """One figure: a value for each entry of `times`, null where nothing was measured."""

    name: Annotated[str, "The figure's name."]
    unit: Annotated[str, "percent, MiB, W, °C, MHz, errors, processes, cores, bytes/s or load."]
    mean: Annotated[list[float | None], "The mean of each step."]
    max: Annotated[list[float | None], "The largest single reading of each step."]


class GpuOverTime(TypedDict):
    """The figures of one GPU."""

    uuid: Annotated[str, "The GPU's UUID."]
    index: Annotated[int, "The GPU's index on its node."]
    node: Annotated[str, "The name of its node."]
    type: Annotated[str, "The GPU's type."]
    memory_mib: Annotated[int, "The GPU's memory in MiB."]
    rank: Annotated[int | None, "The rank that holds it; null in the metrics of a node."]
    figures: Annotated[list[FigureOverTime], "The measured figures."]


class RankOverTime(TypedDict):
    """One rank's use of its host."""

    rank: Annotated[int, "The rank, from 0."]
    node: Annotated[str, "The name of the node that runs it."]
    cpus: Annotated[int, "CPUs of the rank."]
    memory_mib: Annotated[int, "Memory of the rank, in MiB."]
    figures: Annotated[list[FigureOverTime], "The figures that were measured."]


class HostOverTime(TypedDict):
    """The figures of a node as a whole."""

    cpus: Annotated[int, "CPUs of the node."]
    memory_mib: Annotated[int, "Memory of the node in MiB."]
    figures: Annotated[list[FigureOverTime], "The figures that were measured."]


_Window = TypedDict("_Window", {"from": Annotated[Moment, "The beginning of the window."]})


class Metrics(_Window):
    """A window of time in steps; `from` and `to` are multiples of the step, so they may lie around what was asked."""

    to: Annotated[Moment, "The end of the window."]
    step_s: Annotated[int, "The length of one step in seconds."]
    times: Annotated[list[int], "The beginning of each step, in seconds since 1970."]


class ReportedSeries(TypedDict):
    """A figure that the job reported, over its own steps: each point is the mean since the point before."""

    name: Annotated[str, "The figure's name."]
    from_log: Annotated[bool, "Whether it was read from the log; otherwise the job reported it."]
    steps: Annotated[list[float], "The step of each point."]
    values: Annotated[list[float | None], "The value of each point; null where it was no finite number."]
    step: Annotated[float | None, "The newest step."]
    value: Annotated[float | None, "The newest value; null if it is no finite number."]


class JobMetrics(Metrics):
    """An attempt's use of its GPUs and hosts. On a GPU that jobs share, the figures are those of the whole GPU."""

    attempt: Annotated[int | None, "Null: the job has none yet."]
    gpus: Annotated[list[GpuOverTime], "The GPUs of the attempt, by rank and index."]
    ranks: Annotated[list[RankOverTime], "The ranks of the attempt."]
    reported: Annotated[list[ReportedSeries], "Figures that the job reported of itself."]


class NodeMetrics(Metrics):
    """The use of a node and its GPUs."""

    gpus: Annotated[list[GpuOverTime], "The node's GPUs, by index."]
    host: Annotated[HostOverTime, "The node itself."]


class NewestFigure(TypedDict):
    """The newest value of a figure that the job reported."""

    name: Annotated[str, "The figure's name, such as `loss`."]
    step: Annotated[float | None, "The step at which the job reported it; null if it named none."]
    value: Annotated[float | None, "The value; null: it was no finite number."]
    at: Annotated[Moment, "When the platform received it."]


class AdviceGiven(TypedDict):
    """Advice about the loss that the job's owner got."""

    kind: Annotated[AdviceKind, "The problem of the loss."]
    text: Annotated[str, "The advice as the owner reads it."]
    step: Annotated[float, "The training step at which it was noticed."]
    attempt: Annotated[int, "The number of the attempt."]
    at: Annotated[Moment, "When it was noticed."]


class CheckpointInterval(TypedDict):
    """The recommended interval between checkpoints, and the figures behind it."""

    daly_s: Annotated[float, "Recommended seconds of work between checkpoints, by Daly (2006)."]
    young_s: Annotated[float, "The same by Young (1974)."]
    cost_s: Annotated[float, "Seconds that one checkpoint takes."]
    measured: Annotated[
        Literal["reported", "stops"], "The source of `cost_s`: the job's own report, or the time that it took to stop."
    ]
    measurements: Annotated[int, "Number of measurements behind `cost_s`."]
    mtbf_s: Annotated[float, "Mean time between failures of its nodes, s."]
    failures: Annotated[int, "Failures of the pool's nodes under jobs in the last 30 days."]
    node_hours: Annotated[float, "Hours for which the pool's nodes ran jobs in the last 30 days."]
    lost_share: Annotated[
        float, "The part of the run time that goes to checkpoints and repeated work at this interval."
    ]


class RuleMatched(TypedDict):
    """A rule of the operators that a line of the job's log has matched."""

    rule: Annotated[str, "The name of the rule."]
    line: Annotated[str, "The line of the log that matched."]
    actions: Annotated[list[str], "The platform's actions."]
    attempt: Annotated[int, "The number of the attempt."]
    rank: Annotated[int, "The rank whose log it was."]
    node: Annotated[str, "The name of the node that ran the rank."]
    at: Annotated[Moment, "When the line matched."]


class JobTraining(TypedDict):
    """The progress of a job's training."""

    newest: Annotated[list[NewestFigure], "The newest value of each figure that the job reported."]
    advice: Annotated[list[AdviceGiven], "The advice about its loss."]
    checkpoint: Annotated[CheckpointInterval | None, "Null: the cost of a checkpoint is not known."]
    rules: Annotated[list[RuleMatched], "Rules of the operators that lines of the log matched."]
