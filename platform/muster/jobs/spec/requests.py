"""The request of a job's spec, as the one value that is stored with the job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster.jobs.spec.gpus import GpuChoice
from muster.jobs.spec.shares import Shares
from muster.jobs.spec.spec import JobSpec
from scheduler.model.lifecycle import Locality
from scheduler.model.request import Choice, ElasticRange, Request, interned


def gpu_type_of(request: Request) -> str:
    """The GPU type of its one choice; empty where any type will do, and where there are several choices."""
    return (request.first.gpu_type or "") if len(request.choices) == 1 else ""


def request_of_spec(spec: JobSpec, shares: Shares) -> Request:
    """The request of the spec; the shares of its pool give the CPUs and the memory that the spec leaves out."""
    return interned(
        Request(
            choices=tuple(_choice(spec, each, shares) for each in spec.choices),
            nodes=spec.nodes,
            nodes_in=tuple(spec.nodes_in),
            exclude_nodes=tuple(spec.exclude_nodes),
            node_labels=tuple(spec.node_labels.items()),
            locality=spec.locality.within if spec.locality else Locality.ANY,
            shares_gpu=spec.packs,
            gpu_memory_mib=spec.gpu_memory_mib,
            elastic=ElasticRange(spec.elastic.min, spec.elastic.max, spec.elastic.over) if spec.elastic else None,
            runtime=spec.form,
        )
    )


@dataclass(frozen=True, slots=True)
class Size:
    """A choice of a job, and in words where its CPUs and its memory come from; None: from its spec."""

    choice: Choice
    cpus_from: str | None
    memory_from: str | None


def sizes_of(spec: Mapping[str, Any], request: Request, shares: Shares) -> list[Size]:
    """The sizes that a stored spec and its request have, in order of preference."""
    sizes = []
    for choice in request.choices:
        default = shares.default_of(GpuChoice(choice.gpu_type or "", choice.gpus), packs=request.shares_gpu)
        cpus_from = None if "cpus" in spec else default.cpus_from
        sizes.append(Size(choice, cpus_from, None if "memory" in spec else default.memory_from))
    return sizes


def _choice(spec: JobSpec, each: GpuChoice, shares: Shares) -> Choice:
    cpus, memory_mib = spec.cpus, spec.memory_mib
    if cpus is None or memory_mib is None:
        default = shares.default_of(each, packs=spec.packs)
        cpus, memory_mib = cpus or default.cpus, memory_mib or default.memory_mib
    return Choice((each.gpu_type or None) if each.gpus else None, each.gpus, cpus, memory_mib)
