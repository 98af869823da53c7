"""What GPUs, jobs and nodes used over time, and how the training of a job goes."""

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
    rank: Annotated[int | None, "The rank that holds it; null for a node's."]
    figures: Annotated[list[FigureOverTime], "Those that were measured."]


class RankOverTime(TypedDict):
    """What one rank of a job used of its host."""

    rank: Annotated[int, "The rank, from 0."]
    node: Annotated[str, "The name of the node that runs it."]
    cpus: Annotated[int, "What it has been given."]
    memory_mib: Annotated[int, "What it has been given."]
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
    """A figure that the job told of itself, over its own steps: each point is the mean of what lies before it."""

    name: Annotated[str, "The figure's name."]
    from_log: Annotated[bool, "Read from lines of its log; else the job reported it."]
    steps: Annotated[list[float], "The step of each point."]
    values: Annotated[list[float | None], "Null where it was no finite number."]
    step: Annotated[float | None, "The newest one."]
    value: Annotated[float | None, "The newest one; null where it is no finite number."]


class JobMetrics(Metrics):
    """What an attempt used. On a GPU that jobs share, the figures are those of the whole GPU."""

    attempt: Annotated[int | None, "Null: the job has none yet."]
    gpus: Annotated[list[GpuOverTime], "The GPUs of the attempt, by rank and index."]
    ranks: Annotated[list[RankOverTime], "The ranks of the attempt."]
    reported: Annotated[list[ReportedSeries], "Figures that the job reported of itself."]


class NodeMetrics(Metrics):
    """What a node's GPUs and the node itself did."""

    gpus: Annotated[list[GpuOverTime], "The node's GPUs, by index."]
    host: Annotated[HostOverTime, "The node itself."]


class NewestFigure(TypedDict):
    """The newest value of a figure that the job told of itself."""

    name: Annotated[str, "The figure's name, such as `loss`."]
    step: Annotated[float | None, "The step at which the job reported it; null if it named none."]
    value: Annotated[float | None, "Null: it was no finite number."]
    at: Annotated[Moment, "When the platform received it."]


class AdviceGiven(TypedDict):
    """What the owner was told of the job's loss."""

    kind: Annotated[AdviceKind, "What was noticed in the loss."]
    text: Annotated[str, "The advice as the owner reads it."]
    step: Annotated[float, "The training step at which it was noticed."]
    attempt: Annotated[int, "The number of the attempt."]
    at: Annotated[Moment, "When it was noticed."]


class CheckpointInterval(TypedDict):
    """How often the job should save, and what that follows from."""

    daly_s: Annotated[float, "Seconds of work between two checkpoints, by Daly (2006)."]
    young_s: Annotated[float, "The same by Young (1974)."]
    cost_s: Annotated[float, "What one checkpoint takes."]
    measured: Annotated[Literal["reported", "stops"], "By the job, or by how long it took to go."]
    measurements: Annotated[int, "Number of measurements behind `cost_s`."]
    mtbf_s: Annotated[float, "How far failures of its nodes are apart on average."]
    failures: Annotated[int, "Of the pool's nodes under jobs, in the last 30 days."]
    node_hours: Annotated[float, "That the pool's nodes ran jobs, in the last 30 days."]
    lost_share: Annotated[float, "The part of the time that checkpoints and work done again cost then."]


class RuleMatched(TypedDict):
    """A rule of the operators that a line of the job's log has matched."""

    rule: Annotated[str, "The name of the rule."]
    line: Annotated[str, "The line of the log that matched."]
    actions: Annotated[list[str], "What the platform did about it."]
    attempt: Annotated[int, "The number of the attempt."]
    rank: Annotated[int, "The rank whose log it was."]
    node: Annotated[str, "The name of the node that ran the rank."]
    at: Annotated[Moment, "When the line matched."]


class JobTraining(TypedDict):
    """How the training of a job goes."""

    newest: Annotated[list[NewestFigure], "The newest value of each figure that the job reported."]
    advice: Annotated[list[AdviceGiven], "What the owner was told of the loss."]
    checkpoint: Annotated[CheckpointInterval | None, "Null: the cost of a checkpoint is not known."]
    rules: Annotated[list[RuleMatched], "Rules of the operators that lines of the log matched."]
