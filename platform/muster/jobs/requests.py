"""What the spec of a job asks for, as the one value that is stored with the job."""

from __future__ import annotations

from muster.fleet.models import Pool
from muster.jobs.spec import JobSpec
from scheduler.model.lifecycle import Locality
from scheduler.model.request import Choice, ElasticRange, Request, interned


def gpu_type_of(request: Request) -> str:
    """The GPU type of its one choice; empty where any type will do, and where there are several choices."""
    return (request.first.gpu_type or "") if len(request.choices) == 1 else ""


def request_of_spec(spec: JobSpec, pool: Pool) -> Request:
    """What the spec asks for in the pool, whose ratios give the CPUs and the memory that the spec leaves out."""
    choices = tuple(
        Choice(
            gpu_type=(each.gpu_type or None) if each.gpus else None,
            gpus=each.gpus,
            cpus=spec.cpus or max(1, each.gpus * pool.cpus_per_gpu),
            memory_mib=spec.memory_mib or max(1, each.gpus) * pool.memory_mib_per_gpu,
        )
        for each in spec.choices
    )
    return interned(
        Request(
            choices=choices,
            nodes=spec.nodes,
            nodes_in=tuple(spec.nodes_in),
            exclude_nodes=tuple(spec.exclude_nodes),
            locality=spec.locality.within if spec.locality else Locality.ANY,
            shares_gpu=spec.share == "pack",
            gpu_memory_mib=spec.gpu_memory_mib,
            elastic=ElasticRange(spec.elastic.min, spec.elastic.max) if spec.elastic else None,
            runtime=spec.form,
        )
    )
