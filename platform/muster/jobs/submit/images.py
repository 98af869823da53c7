"""Whether the nodes of a pool can run a job in its image, or without one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import orjson

from muster.common.errors import Invalid
from muster.common.statements import Statement
from muster.fleet.models import Pool
from muster.fleet.networks import lacks_gang_network
from muster.fleet.runtimes import PROCESS, forms_of
from muster.jobs.spec.spec import JobSpec
from scheduler.model.lifecycle import NodeAdmin, RuntimeNeed

_SAID = Statement(
    "SELECT inventory->'runtimes', labels->'default-image', inventory->'mount_roots', count(*) FROM fleet_node"
    " WHERE pool_id = %s AND admin <> %s AND inventory ? 'runtimes' GROUP BY 1, 2, 3"
)


class JobRuntime(StrEnum):
    """In what a job runs."""

    CONTAINER = "container"
    PROCESS = "process"
    EITHER = "either"
    """As its node says."""


@dataclass(frozen=True, slots=True)
class RuntimeOutlook:
    """In what a job would run, and why; `nodes` of the pool offer that, of those that have said what they offer."""

    runtime: JobRuntime
    why: str
    nodes: int
    of: int


def require_runtime(spec: JobSpec, pool: Pool) -> None:
    """Return if some node of the pool can start the job, as far as they have said; else name the field that is
    wrong."""
    field = "nodes" if spec.nodes > 1 else "elastic.over"
    if spec.image and spec.may_span_nodes and pool.gang_network == "refuse":
        raise Invalid.field(field, f"pool {pool.name} runs no containers of jobs on several nodes")
    if spec.may_span_nodes and lacks_gang_network(pool, in_containers=spec.form is not RuntimeNeed.PLAIN):
        raise Invalid.field(
            field,
            f"in pool {pool.name} containers on several nodes do not reach each other: an operator has to set the gang "
            "network of the pool to an overlay network, or to host",
        )
    found = _forms_in(pool)
    if not found or spec.form in found:
        return  # or no node has said yet what it can do
    if spec.mounts and not {RuntimeNeed.IMAGE_VOLUMES, RuntimeNeed.CONTAINER_VOLUMES} & found:
        raise Invalid.field("mounts", f"no node of pool {pool.name} mounts volumes")
    if spec.form is RuntimeNeed.IMAGE or (spec.form is RuntimeNeed.CONTAINER and RuntimeNeed.IMAGE not in found):
        field = "image" if spec.image else "shm"
        raise Invalid.field(
            field,
            f"no node of pool {pool.name} offers containers: leave it out, or have an operator start Docker or Podman "
            "on a node",
        )
    raise Invalid.field("image", f"it is required: the nodes of pool {pool.name} run jobs in containers")


def runtime_outlook(spec: JobSpec, pool: Pool) -> RuntimeOutlook:
    """In what the job would run on the nodes of the pool."""
    said = _said_in(pool)
    total = sum(nodes for _, _, nodes in said)
    able = [(runtimes, nodes) for runtimes, forms, nodes in said if spec.form in forms]
    count = sum(nodes for _, nodes in able)
    if spec.form is not RuntimeNeed.PLAIN:
        why = "it names an image" if spec.image else "it asks for mounts" if spec.mounts else "it asks for shm"
        return RuntimeOutlook(JobRuntime.CONTAINER, why, count, total)
    plain = sum(nodes for runtimes, nodes in able if PROCESS in runtimes)
    if plain == count:
        return RuntimeOutlook(JobRuntime.PROCESS, "it has no image, mounts or shm", count, total)
    if not plain:
        return RuntimeOutlook(JobRuntime.CONTAINER, "the nodes have an image for jobs that name none", count, total)
    return RuntimeOutlook(JobRuntime.EITHER, "it names no image, and some nodes have one for such jobs", count, total)


def _forms_in(pool: Pool) -> frozenset[RuntimeNeed]:
    """The forms of jobs that the nodes of the pool can start, as far as they have said."""
    return frozenset(form for _, forms, _ in _said_in(pool) for form in forms)


def _said_in(pool: Pool) -> list[tuple[list[str], tuple[RuntimeNeed, ...], int]]:
    """Reports of the pool's nodes: runtimes, the forms of jobs that they start, and the number of such nodes."""
    found = []
    for *texts, nodes in _SAID.rows(pool.pk, NodeAdmin.RETIRED.value):
        runtimes, default, roots = (orjson.loads(text) if text else None for text in texts)
        found.append((runtimes or [], forms_of(runtimes or (), default or "", roots or ()), nodes))
    return found
