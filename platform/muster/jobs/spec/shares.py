"""The CPUs and the memory on each node of a job whose spec does not name them.

For each GPU a job gets the smallest share of its GPU type: over the nodes of the pool, CPUs ÷ GPUs and memory ÷ GPUs of
what the agent offers to jobs. So jobs that fill the GPUs of a node fit its CPUs and memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from muster.common.statements import Statement
from muster.fleet.models import Pool
from muster.jobs.spec.gpus import GpuChoice
from scheduler.model.lifecycle import NodeAdmin

# Any type: the smallest share of all nodes with GPUs, under the empty name.
_SHARES = Statement("""
WITH node_share AS (
    SELECT node.cpus / count(*) AS cpus, node.memory_mib / count(*) AS memory_mib, array_agg(DISTINCT gpu.type) AS types
    FROM fleet_node node JOIN fleet_gpu gpu ON gpu.node_id = node.id AND gpu.present
    WHERE node.pool_id = %s AND node.admin <> %s AND node.cpus > 0 AND node.memory_mib > 0
    GROUP BY node.id
)
SELECT coalesce(type, ''), min(cpus), min(memory_mib)
FROM node_share CROSS JOIN LATERAL unnest(types) AS type GROUP BY ROLLUP (type)
""")


@dataclass(frozen=True, slots=True)
class Share:
    """CPUs and MiB of memory."""

    cpus: int
    memory_mib: int


@dataclass(frozen=True, slots=True)
class NodeDefault:
    """CPUs and MiB of memory on each node for a choice of GPUs, and the source of each figure in words."""

    cpus: int
    memory_mib: int
    cpus_from: str
    memory_from: str


WITHOUT_GPUS = Share(cpus=1, memory_mib=2048)
"""Of a job without GPUs, on each node."""
UNKNOWN = Share(cpus=1, memory_mib=4096)
"""For each GPU, where no node of the pool with such GPUs has told its CPUs and memory."""


class Shares:
    """The defaults of a pool; its nodes are read when a default is first needed, then kept."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def default_of(self, choice: GpuChoice, *, packs: bool) -> NodeDefault:
        """The default for the choice; half of it for a job that shares its GPUs, so that a pair fits."""
        if not choice.gpus:
            told = "default without GPUs"
            return NodeDefault(WITHOUT_GPUS.cpus, WITHOUT_GPUS.memory_mib, told, told)
        pool = self._pool
        gpus = f"{choice.gpus} GPU{'' if choice.gpus == 1 else 's'}"
        part, halves = (2, "half the ") if packs else (1, "")
        cpus, memory_mib = pool.cpus_per_gpu, pool.memory_mib_per_gpu
        cpus_from = memory_from = f"{halves}default of pool {pool.name} for {gpus}"
        if cpus is None or memory_mib is None:
            share, words = self._share_of(choice.gpu_type, gpus)
            if cpus is None:
                cpus, cpus_from = share.cpus, halves + words
            if memory_mib is None:
                memory_mib, memory_from = share.memory_mib, halves + words
        return NodeDefault(
            max(1, choice.gpus * cpus // part), max(1, choice.gpus * memory_mib // part), cpus_from, memory_from
        )

    def of_one_gpu(self, gpu_type: str) -> Share:
        """The default of one GPU of the type; of any type if it is empty."""
        default = self.default_of(GpuChoice(gpu_type, 1), packs=False)
        return Share(default.cpus, default.memory_mib)

    def _share_of(self, gpu_type: str, gpus: str) -> tuple[Share, str]:
        known = self._by_type.get(gpu_type)
        if known is None:
            nodes = f"{gpu_type} node" if gpu_type else "node with GPUs"
            return UNKNOWN, f"default for {gpus}: no {nodes} of pool {self._pool.name} is known yet"
        return known, f"share of {gpus} on {gpu_type or 'GPU'} nodes"

    @cached_property
    def _by_type(self) -> dict[str, Share]:
        return {
            kind: Share(cpus, memory_mib)
            for kind, cpus, memory_mib in _SHARES.rows(self._pool.pk, NodeAdmin.RETIRED.value)
            if cpus is not None  # what ROLLUP says of a pool without nodes
        }
