"""The hardware of a pool as a decision sees it: nodes and their GPUs."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.model.lifecycle import RuntimeNeed

# What a GPU can be divided into. A job that shares its GPUs has half of each, whether or not another one is there yet.
SLOTS = 64
HALF = SLOTS // 2


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU; one that is not `healthy` is given to nobody, and one with a warning after all others of its node."""

    id: int
    node_id: int
    index: int
    uuid: str
    type: str
    memory_mib: int
    healthy: bool
    warned: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """One server; `why_not` says in a few words why it is not `schedulable`, and is empty when it is.

    `links[a][b]` scores how close GPU index a is to GPU index b, larger is closer: any measure that is the same for the
    whole node, such as the number of NVLinks between them, or below that the level of PCIe at which they meet. Empty
    when nobody knows. `strikes` counts the failures blamed on the node, decayed by age until now. `forms` are those of
    the jobs that it can start, all when nobody has said. It is to be free of jobs from `closes_at` on, for a reason
    that `closing` tells; when it `clears` then, those that can go on elsewhere are moved. See `eligibility`.
    From `opens_at` on it takes jobs again, one that is not schedulable too; None when nobody knows.
    A `single_user` node runs all jobs as one account, so it takes jobs of the tenant `tenant_id` only; None: of none.
    """

    id: int
    name: str
    rack: str
    cpus: int
    memory_mib: int
    version: int
    schedulable: bool
    why_not: str
    gpus: tuple[Gpu, ...]
    links: tuple[tuple[int, ...], ...] = ()
    strikes: float = 0.0
    forms: tuple[RuntimeNeed, ...] = ()
    closes_at: float | None = None
    clears: bool = False
    closing: str = ""
    opens_at: float | None = None
    single_user: bool = False
    tenant_id: int | None = None
