"""The answer of a forward run: starts of waiting jobs by id, and of jobs that would be submitted now by their kind."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduler.model import Job
from scheduler.predict.waits.forecast import LEVELS, QUICK_S

VERSION = 1
_LIMITS_S = (3600.0, 4 * 3600.0, 24 * 3600.0)  # the bounds of the classes of time limits


class ForwardError(ValueError):
    """A stored answer that is of another version, or broken."""


@dataclass(frozen=True, slots=True)
class Starts:
    """The starts of one job over all draws.

    `quick` is the share of draws in which it waits for at most `QUICK_S`. The quantiles of the start are in seconds
    after the moment of the run; infinity: later than the run has come.
    """

    quick: float
    p10_s: float
    p50_s: float
    p90_s: float


@dataclass(frozen=True, slots=True)
class Kind:
    """Jobs that would wait alike. `limit` is the class of their time limits, ascending; the last one is none."""

    vc_id: int
    job_class: str
    gpu_types: tuple[str, ...]  # empty: any
    gpus: int  # of the whole gang
    nodes: int
    priority: int
    limit: int


@dataclass(frozen=True, slots=True)
class Forward:
    """The starts of jobs, seen from `at`, s since 1970. The draws end at `horizon_s` after it, at most.

    `reached` is the share of the waiting jobs that start in more than half of the draws.
    """

    at: float
    horizon_s: float
    draws: int
    took_s: float
    reached: float
    jobs: Mapping[int, Starts] = field(default_factory=dict)
    probes: Mapping[Kind, Starts] = field(default_factory=dict)

    def of_kind(self, kind: Kind) -> Starts | None:
        """The starts of a job of this kind that is submitted now: of its kind, or of the nearest one.

        None without a kind of the same virtual cluster and class that takes one of the GPU types.
        """
        near = [other for other in self.probes if _distance(kind, other) < math.inf]
        return self.probes[min(near, key=lambda other: _distance(kind, other))] if near else None


def kind_of(job: Job) -> Kind:
    """The kind of a job that waits."""
    request = job.request
    return Kind(
        job.vc_id,
        job.job_class.value,
        tuple(sorted(request.gpu_types)),
        request.gpus_total,
        request.nodes,
        job.priority,
        len(_LIMITS_S) + 1 if job.time_limit_s is None else bisect_left(_LIMITS_S, job.time_limit_s),
    )


def starts_of(starts_s: Iterable[float], waited_s: float = 0.0) -> Starts:
    """The summary of the starts of a job that has waited so long: one for each draw, s after the moment of the run.

    Infinity: it did not start within the horizon.
    """
    ordered = sorted(starts_s)
    quick = sum(start_s + waited_s <= QUICK_S for start_s in ordered) / len(ordered)
    p10_s, p50_s, p90_s = (ordered[min(int(level * len(ordered)), len(ordered) - 1)] for level in LEVELS)
    return Starts(quick, p10_s, p50_s, p90_s)


def to_json(forward: Forward) -> dict[str, Any]:
    """The answer as JSON, in whole seconds and percent; a job or a probe is one row."""
    return {
        "version": VERSION,
        "at": forward.at,
        "horizon_s": round(forward.horizon_s),
        "draws": forward.draws,
        "took_s": round(forward.took_s, 3),
        "reached": round(forward.reached, 4),
        "jobs": {str(job_id): _row(starts) for job_id, starts in forward.jobs.items()},
        "probes": [
            [*(getattr(kind, name) for name in Kind.__slots__), *_row(starts)]
            for kind, starts in forward.probes.items()
        ],
    }


def from_json(data: Mapping[str, Any]) -> Forward:
    """The answer of which `to_json` made the data; of the jobs those that the data still has.

    Raises:
        ForwardError: it is of another version, or broken.
    """
    if data.get("version") != VERSION:
        raise ForwardError(f"a forward run in version {data.get('version')!r}, not {VERSION}")
    try:
        return Forward(
            at=float(data["at"]),
            horizon_s=float(data["horizon_s"]),
            draws=int(data["draws"]),
            took_s=float(data["took_s"]),
            reached=float(data["reached"]),
            jobs={int(job_id): _starts(row) for job_id, row in data["jobs"].items()},
            probes=dict(map(_probe, data["probes"])),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ForwardError(f"a broken forward run: {error!r}") from error


def _row(starts: Starts) -> list[int | None]:
    quantiles = (starts.p10_s, starts.p50_s, starts.p90_s)
    return [round(100 * starts.quick), *(None if math.isinf(each) else round(each) for each in quantiles)]


def _starts(row: Sequence[int | None]) -> Starts:
    percent, *quantiles = row
    p10_s, p50_s, p90_s = (math.inf if each is None else float(each) for each in quantiles)
    return Starts((percent or 0) / 100, p10_s, p50_s, p90_s)


def _probe(row: Sequence[Any]) -> tuple[Kind, Starts]:
    vc_id, job_class, gpu_types, gpus, nodes, priority, limit, *starts = row
    return Kind(vc_id, job_class, tuple(gpu_types), gpus, nodes, priority, limit), _starts(starts)


def _distance(kind: Kind, other: Kind) -> float:
    """The difference of two kinds, in doublings of the size and alike; infinity: the one tells nothing of the other."""
    if (kind.vc_id, kind.job_class) != (other.vc_id, other.job_class):
        return math.inf
    types, others = set(kind.gpu_types), set(other.gpu_types)
    if types and others and not types & others:
        return math.inf
    sizes = abs(math.log2((kind.gpus + 1) / (other.gpus + 1))) + abs(math.log2(kind.nodes / other.nodes))
    return sizes + (types != others) + (kind.priority != other.priority) + abs(kind.limit - other.limit) / 4
