"""The hardware of a pool: nodes and their GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.model.lifecycle import RuntimeNeed

# The slots of a GPU. A job that shares its GPUs takes half of the slots of each, even while it runs there alone.
SLOTS = 64
HALF = SLOTS // 2


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU. Only a `healthy` GPU is given to jobs; a `warned` one is given last of its node."""

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
    """One server. `unschedulable_reason` is a short phrase, empty while the node is `schedulable`.

    - `links[a][b]` is the closeness of the GPUs with index a and b; larger is closer. Any measure that one node uses
      throughout will do: the number of NVLinks, or the PCIe level at which the two meet. Empty: unknown.
    - `strikes` is the number of failures blamed on the node, decayed by age.
    - `runtimes` are the runtime needs that the node meets. Empty: its agent has not reported them.
    - Maintenance begins at `maintenance_starts_at`, s, for `maintenance_reason`. When it begins, a node that `drains`
      has its preemptible jobs moved off.
    - `labels` are what its agent and operators say of it, by name.
    - From `maintenance_ends_at` on, the node takes jobs again, even if it is not schedulable now. None: unknown.
    - A `single_user` node runs all jobs as one account, so it takes only jobs of the tenant `tenant_id`. None: no jobs.
    """

    id: int
    name: str
    rack: str
    cpus: int
    memory_mib: int
    version: int
    schedulable: bool
    unschedulable_reason: str
    gpus: tuple[Gpu, ...]
    links: tuple[tuple[int, ...], ...] = ()
    strikes: float = 0.0
    runtimes: tuple[RuntimeNeed, ...] = ()
    maintenance_starts_at: float | None = None
    drains: bool = False
    maintenance_reason: str = ""
    maintenance_ends_at: float | None = None
    single_user: bool = False
    tenant_id: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
