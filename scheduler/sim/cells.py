"""The virtual cells of virtual clusters that are given quotas: whole nodes, and smaller cells for the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from scheduler.admission.hived.measured import measured
from scheduler.model import Node
from scheduler.sim.cluster import ClusterError


def cells_of(nodes: Iterable[Node], quotas: Mapping[str, Mapping[str, int]]) -> Mapping[str, Mapping[str, int]]:
    """The virtual cells by virtual cluster and cell type that have as many GPUs as its quotas.

    Raises:
        ClusterError: the quotas are larger than the cluster.
    """
    config = measured(nodes)
    free = Counter[str]()  # GPUs by chain
    for name, _ in config.physical:
        free[name] += config.chains[name].sizes[-1]
    found: dict[str, Counter[str]] = {vc: Counter() for vc in quotas}
    for vc, kinds in sorted(quotas.items()):
        for kind, gpus in kinds.items():
            left = gpus
            for name, chain in config.chains.items():
                for level in range(chain.node, -1, -1) if chain.leaf_type == kind else ():
                    cells = min(left, free[name]) // chain.sizes[level]
                    if cells:
                        found[vc][chain.path(level)] += cells
                        left -= cells * chain.sizes[level]
                        free[name] -= cells * chain.sizes[level]
            if left:
                raise ClusterError(f"there are no cells for {left} {kind} of {vc}: its quota is too large")
    return found
