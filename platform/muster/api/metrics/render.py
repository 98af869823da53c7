"""Samples over time and reports of training as JSON, each document in a constant number of queries."""

from __future__ import annotations

from muster.common.clock import finite, moment
from muster.failures.selectors import log_matches_of
from muster.fleet.models import Gpu, Node
from muster.jobs.models import Allocation, Attempt, GpuClaim, Job
from muster.monitoring.models import Series
from muster.monitoring.selectors import CheckpointAdvice, advice_of, checkpoint_advice, newest_of, series_of
from muster.monitoring.store import curve_of
from muster.samples.families import GPU, HOST, RANK, Family
from muster.samples.selectors import Lines, Window, read
from muster_client.answers.metrics import (
    CheckpointInterval,
    FigureOverTime,
    GpuOverTime,
    JobMetrics,
    JobTraining,
    Metrics,
    NodeMetrics,
    ReportedSeries,
)

_NOTHING = Lines()


def job_metrics(attempt: Attempt | None, window: Window) -> JobMetrics:
    """The use of an attempt's GPUs and ranks."""
    ranks = list(Allocation.objects.filter(attempt=attempt).select_related("node").order_by("rank")) if attempt else []
    ids = [allocation.pk for allocation in ranks]
    claims = GpuClaim.objects.filter(allocation_id__in=ids).select_related("gpu").order_by("gpu__index")
    gpus_of: dict[int, dict[int, Gpu]] = {allocation_id: {} for allocation_id in ids}
    for claim in claims:
        gpus_of[claim.allocation_id][claim.gpu_id] = claim.gpu
    gpu_ids = [gpu_id for gpus in gpus_of.values() for gpu_id in gpus]
    by_gpu = read(GPU, window, by="gpu_id", only={"gpu_id": gpu_ids, "allocation_id": ids})
    by_rank = read(RANK, window, by="allocation_id", only={"allocation_id": ids})
    return {
        **_window(window),
        "attempt": attempt.number if attempt else None,
        "gpus": [
            _gpu(gpu, allocation.node.name, allocation.rank, by_gpu.get(gpu.pk, _NOTHING))
            for allocation in ranks
            for gpu in gpus_of[allocation.pk].values()
        ],
        "ranks": [
            {
                "rank": allocation.rank,
                "node": allocation.node.name,
                "cpus": allocation.cpus,
                "memory_mib": allocation.memory_mib,
                "figures": _figures(RANK, by_rank.get(allocation.pk, _NOTHING)),
            }
            for allocation in ranks
        ],
        "reported": [_series(row) for row in series_of(attempt)] if attempt else [],
    }


def node_metrics(node: Node, window: Window) -> NodeMetrics:
    """The metrics of a node's GPUs, whichever jobs held them, and of the node itself."""
    gpus = list(Gpu.objects.filter(node=node, present=True).order_by("index"))
    by_gpu = read(GPU, window, by="gpu_id", only={"gpu_id": [gpu.pk for gpu in gpus]})
    by_node = read(HOST, window, by="node_id", only={"node_id": [node.pk]})
    return {
        **_window(window),
        "gpus": [_gpu(gpu, node.name, None, by_gpu.get(gpu.pk, _NOTHING)) for gpu in gpus],
        "host": {
            "cpus": node.cpus,
            "memory_mib": node.memory_mib,
            "figures": _figures(HOST, by_node.get(node.pk, _NOTHING)),
        },
    }


def _series(row: Series) -> ReportedSeries:
    points = curve_of(row).points()
    return {
        "name": row.name,
        "from_log": row.from_log,
        "steps": [step for step, _ in points],
        "values": [finite(value) for _, value in points],
        "step": row.last_step,
        "value": finite(row.last_value),
    }


def _window(window: Window) -> Metrics:
    return {"from": moment(window.start), "to": moment(window.end), "step_s": window.step_s, "times": window.times}


def _gpu(gpu: Gpu, node: str, rank: int | None, lines: Lines) -> GpuOverTime:
    return {
        "uuid": gpu.uuid,
        "index": gpu.index,
        "node": node,
        "type": gpu.type,
        "memory_mib": gpu.memory_mib,
        "rank": rank,
        "figures": _figures(GPU, lines),
    }


def _figures(family: Family, lines: Lines) -> list[FigureOverTime]:
    return [
        {"name": figure.name, "unit": figure.unit, "mean": lines.mean[figure.name], "max": lines.most[figure.name]}
        for figure in family.figures
        if figure.name in lines.mean
    ]


def job_training(job: Job) -> JobTraining:
    """The newest figures, what the owner was told, and how often to save."""
    interval = checkpoint_advice(job)
    return {
        "newest": [
            {"name": row.name, "step": row.last_step, "value": finite(row.last_value), "at": moment(row.at)}
            for row in newest_of(job)
        ],
        "advice": [
            {"kind": one.kind, "text": one.text, "step": one.step, "attempt": one.attempt.number, "at": moment(one.at)}
            for one in advice_of(job)
        ],
        "checkpoint": None if interval is None else _checkpoint(interval),
        "rules": [
            {
                "rule": one.rule,
                "line": one.line,
                "actions": one.actions,
                "attempt": one.allocation.attempt.number,
                "rank": one.allocation.rank,
                "node": one.allocation.node.name,
                "at": moment(one.at),
            }
            for one in log_matches_of(job)
        ],
    }


def _checkpoint(advice: CheckpointAdvice) -> CheckpointInterval:
    interval = advice.interval
    return {
        "daly_s": interval.daly_s,
        "young_s": interval.young_s,
        "cost_s": interval.cost_s,
        "measured": advice.measured,
        "measurements": advice.measurements,
        "mtbf_s": interval.mtbf_s,
        "failures": advice.failures,
        "node_hours": advice.node_hours,
        "lost_share": interval.lost_share,
    }
