"""The platform's own history: JSON, one object a line, starting with a header.

docs/reference/simulator-formats.md defines it. Jobs that never ran are left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from sys import intern
from typing import Any

from scheduler.model.lifecycle import JobClass
from scheduler.model.request import Over
from scheduler.sim.readers import Format
from scheduler.sim.readers.options import ReadOptions
from scheduler.sim.readers.source import Excluded, Source, Unusable, moment, per_gpu
from scheduler.sim.trace import Trace, TraceJob
from scheduler.sim.work import FixedWork, ScalingWork

VERSION = 1
_CLASSES = frozenset(job_class.value for job_class in JobClass)
STATUSES = frozenset({"", "succeeded", "failed", "cancelled"})
FIELDS = frozenset({
    "submitted_at", "name", "tenant", "vc", "owner", "gpus", "nodes", "gpu_type", "cpus", "memory_mib", "priority",
    "class", "time_limit_s", "expected_s", "run_s", "status", "attempts", "waited_s", "preemptible",
    "min_gpus", "max_gpus", "over", "speeds",
})  # fmt: skip

FORMAT = Format(
    name="muster",
    sentence="The platform's own history: a header, then one job a line, all as JSON objects.",
    files=("*.jsonl",),
    sniff=lambda lines: bool(lines) and '"format"' in lines[0] and '"muster"' in lines[0],
)


def read(path: Path, options: ReadOptions) -> Trace:
    """The jobs of such a file that ran."""
    source = Source(path, options, dated=True)
    lines = source.lines()
    first, text = next(lines, (1, ""))
    try:
        quotas = _quotas(_object(text))
    except Unusable as error:
        raise source.error(first, error) from None
    source.add_each(lines, _draft)
    return source.trace(quotas)


def _quotas(header: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    if header.get("format") != "muster":
        raise Unusable('the first line is not a header with "format": "muster"')
    if header.get("version") != VERSION:
        raise Unusable(f"version {header.get('version')!r}; this reads version {VERSION}")
    quotas = header.get("quotas", {})
    if not isinstance(quotas, dict) or not all(isinstance(types, dict) for types in quotas.values()):
        raise Unusable("quotas must be GPUs by virtual cluster and GPU type")
    return {
        vc: {gpu_type: _whole(types, gpu_type, None, least=0) for gpu_type in types} for vc, types in quotas.items()
    }


def _draft(text: str) -> TraceJob:
    job = _object(text)
    unknown = sorted(job.keys() - FIELDS)
    if unknown:
        raise Unusable(f"unknown field {unknown[0]!r}")
    gpus, nodes = _whole(job, "gpus", None, least=0), _whole(job, "nodes", 1, least=1)
    if gpus == 0:
        raise Excluded("asks for no GPU")
    if gpus % nodes:
        raise Unusable(f"{gpus} GPUs cannot be divided evenly among {nodes} nodes")
    status, job_class = _text(job, "status", ""), _text(job, "class", JobClass.GUARANTEED.value)
    if status not in STATUSES:
        raise Unusable(f"unknown status {status!r}")
    if job_class not in _CLASSES:
        raise Unusable(f"unknown class {job_class!r}")
    if job.get("run_s") is None or _whole(job, "attempts", 1, least=0) == 0:
        raise Excluded("never started")
    tenant = _text(job, "tenant", "")
    over = _over(job)
    least, most = _sizes(job, gpus, nodes if over is Over.NODE else 1)
    return TraceJob(
        id=0,
        name=_text(job, "name", "job"),
        submitted_s=_submitted_s(job),
        gpus=gpus,
        min_gpus=least,
        max_gpus=most,
        over=over,
        work=_work(job, gpus),
        vc=intern(_text(job, "vc", tenant or "default")),
        owner=intern(_text(job, "owner", "owner")),
        gpu_type=None if job.get("gpu_type") is None else intern(_text(job, "gpu_type", "")),
        nodes=nodes,
        split=False,
        cpus=per_gpu(_whole(job, "cpus", 0, least=0), nodes),
        memory_mib=per_gpu(_whole(job, "memory_mib", 0, least=0), nodes),
        priority=_whole(job, "priority", 0),
        job_class=JobClass(job_class),
        preemptible=_preemptible(job),
        time_limit_s=None if job.get("time_limit_s") is None else _amount(job, "time_limit_s"),
        expected_s=None if job.get("expected_s") is None else _amount(job, "expected_s"),
        status=status,
        attempts=_whole(job, "attempts", 1, least=0),
        waited_s=None if job.get("waited_s") is None else _amount(job, "waited_s"),
    )


def _work(job: Mapping[str, Any], gpus: int) -> FixedWork | ScalingWork:
    run_s = _amount(job, "run_s")
    return ScalingWork(run_s, gpus, tuple(job["speeds"])) if "max_gpus" in job else FixedWork(run_s)


def _over(job: Mapping[str, Any]) -> Over:
    value = _text(job, "over", Over.NODE.value)
    if value not in set(Over):
        raise Unusable(f"over is {value!r}, neither node nor gang")
    return Over(value)


def _sizes(job: Mapping[str, Any], gpus: int, nodes: int) -> tuple[int, int]:
    """The least and the largest size of an elastic job, whose speeds are known; 1 and 0 for a job of one size.

    Both are multiples of `nodes`.
    """
    if "max_gpus" not in job:
        if "min_gpus" in job or "over" in job or "speeds" in job:
            raise Unusable("min_gpus, over and speeds need max_gpus")
        return 1, 0
    least, most = _whole(job, "min_gpus", nodes, least=1), _whole(job, "max_gpus", None, least=1)
    if not least <= gpus <= most or least % nodes or most % nodes:
        raise Unusable(f"{gpus} GPUs on {nodes} nodes are no size between min_gpus {least} and max_gpus {most}")
    speeds = job.get("speeds")
    if not isinstance(speeds, list) or len(speeds) != most:
        raise Unusable(f"speeds are not {most} numbers, one for each number of GPUs")
    if not all(isinstance(one, int | float) and not isinstance(one, bool) and 0 < one < math.inf for one in speeds):
        raise Unusable("a speed is not a positive number")
    return least, most


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise Unusable(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Unusable("not a JSON object")
    return value


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _submitted_s(job: Mapping[str, Any]) -> float:
    value = job.get("submitted_at")
    return moment(value, "submitted_at") if isinstance(value, str) else _amount(job, "submitted_at")


def _amount(job: Mapping[str, Any], name: str) -> float:
    value = job.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Unusable(f"{name} is not a number: {value!r}")
    if value < 0:
        raise Unusable(f"{name} is negative: {value}")
    return float(value)


def _whole(job: Mapping[str, Any], name: str, default: int | None, *, least: int | None = None) -> int:
    value = job.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise Unusable(f"{name} is not a whole number: {value!r}")
    if least is not None and value < least:
        raise Unusable(f"{name} is {value}, not at least {least}")
    return value


def _text(job: Mapping[str, Any], name: str, default: str) -> str:
    value = job.get(name, default)
    if not isinstance(value, str):
        raise Unusable(f"{name} is not a string: {value!r}")
    return value


def _preemptible(job: Mapping[str, Any]) -> bool:
    value = job.get("preemptible", True)
    if not isinstance(value, bool):
        raise Unusable(f"preemptible is neither true nor false: {value!r}")
    return value


def header(quotas: Mapping[str, Mapping[str, int]] | None = None) -> str:
    """The header line of such a file."""
    return json.dumps({"format": "muster", "version": VERSION, **({"quotas": quotas} if quotas else {})})
