"""Whether the nodes of a pool can run a job in its image, or without one."""

from __future__ import annotations

import orjson

from muster.common.errors import Invalid
from muster.common.statements import Statement
from muster.fleet.models import Pool
from muster.fleet.networks import lacks_gang_network
from muster.fleet.runtimes import forms_of
from muster.jobs.spec import JobSpec
from scheduler.model.lifecycle import NodeAdmin, RuntimeNeed

_SAID = Statement(
    "SELECT DISTINCT inventory->'runtimes', labels->'default-image', inventory->'mount_roots' FROM fleet_node"
    " WHERE pool_id = %s AND admin <> %s AND inventory ? 'runtimes'"
)


def require_runtime(spec: JobSpec, pool: Pool) -> None:
    """Return if some node of the pool can start the job, as far as they have said; else name the field that is wrong.

    A pool may mix runtimes: the job is then placed on those nodes that can start it.
    """
    if spec.image and spec.nodes > 1 and pool.gang_network == "refuse":
        raise Invalid.field("nodes", f"pool {pool.name} runs no containers of jobs on several nodes")
    if spec.nodes > 1 and lacks_gang_network(pool, has_image=bool(spec.image)):
        raise Invalid.field(
            "nodes",
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
        raise Invalid.field(field, f"the nodes of pool {pool.name} run jobs as processes, without images: leave it out")
    raise Invalid.field("image", f"it is required: the nodes of pool {pool.name} run jobs in containers")


def _forms_in(pool: Pool) -> frozenset[RuntimeNeed]:
    """The forms of jobs that the nodes of the pool can start, as far as they have said."""
    said = ([orjson.loads(one) if one else None for one in row] for row in _SAID.rows(pool.pk, NodeAdmin.RETIRED.value))
    return frozenset(
        form for runtimes, default, roots in said for form in forms_of(runtimes or (), default or "", roots or ())
    )
