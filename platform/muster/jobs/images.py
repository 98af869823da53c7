"""Whether the nodes of a pool can run a job in its image, or without one."""

from __future__ import annotations

from muster.common.errors import Invalid
from muster.fleet.models import Node, Pool
from muster.jobs.spec import JobSpec
from scheduler.lifecycle import NodeAdmin

_WITHOUT_IMAGES = "process"


def require_runtime(spec: JobSpec, pool: Pool) -> None:
    """Return if some node of the pool can run the job, as far as they have said; else name the field that is wrong.

    A pool may mix runtimes: a node that cannot run the job refuses it, and the next try goes elsewhere.
    """
    said = (
        Node.objects.filter(pool=pool, inventory__has_key="runtimes")
        .exclude(admin=NodeAdmin.RETIRED)
        .values_list("inventory__runtimes", "labels__default-image")
        .distinct()
    )
    found = [(runtime, bool(default)) for runtimes, default in said for runtime in runtimes or ()]
    if not found:
        return  # no node has said yet what it can do
    in_containers = any(runtime != _WITHOUT_IMAGES for runtime, _ in found)
    for field in ("image", "shm"):
        if getattr(spec, field) and not in_containers:
            raise Invalid.field(
                field, f"the nodes of pool {pool.name} run jobs as processes, without images: leave it out"
            )
    if not spec.image and not any(runtime == _WITHOUT_IMAGES or default for runtime, default in found):
        raise Invalid.field("image", f"it is required: the nodes of pool {pool.name} run jobs in containers")
