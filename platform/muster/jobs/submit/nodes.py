"""Whether the pool of a job has the nodes that its spec names."""

from __future__ import annotations

from collections.abc import Mapping

from muster.common.errors import FieldError, Invalid
from muster.fleet.models import Node, Pool
from muster.jobs.spec.spec import JobSpec
from scheduler.model.lifecycle import NodeAdmin


def require_nodes(spec: JobSpec, pool: Pool) -> None:
    """Return if the pool has all nodes that the spec names, and enough others if it excludes some.

    Raises:
        Invalid: names each entry of `nodes_in` and `exclude_nodes` that is no node of the pool.
    """
    named = {*spec.nodes_in, *spec.exclude_nodes}
    if not named:
        return
    in_use = Node.objects.exclude(admin=NodeAdmin.RETIRED)
    pools = dict(in_use.filter(name__in=named).values_list("name", "pool__name"))
    errors = [
        *_problems("nodes_in", spec.nodes_in, pool, pools),
        *_problems("exclude_nodes", spec.exclude_nodes, pool, pools),
    ]
    if errors:
        raise Invalid.fields(errors)
    if spec.nodes_in:
        return  # the spec itself is refused where these are too few
    total = in_use.filter(pool=pool).count()
    left = total - len(spec.exclude_nodes)
    if left < spec.nodes:
        raise Invalid.field(
            "exclude_nodes",
            f"it leaves {left or 'none'} of the {total} nodes of pool {pool.name}; this job needs {spec.nodes}. "
            "Exclude fewer nodes",
        )


def _problems(field: str, names: list[str], pool: Pool, pools: Mapping[str, str]) -> list[FieldError]:
    """Errors of the names; `pools` has the pool of each node that is in use."""
    return [
        FieldError(f"{field}.{index}", _problem(name, pool, pools.get(name)))
        for index, name in enumerate(names)
        if pools.get(name) != pool.name
    ]


def _problem(name: str, pool: Pool, other: str | None) -> str:
    if other is None:
        return f"there is no node {name}. `muster nodes` lists all nodes"
    return f"node {name} is in pool {other}, and this job runs in pool {pool.name}"
