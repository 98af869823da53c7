"""A demand: one choice of a request that a cycle tries to place."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from scheduler.model import Locality
from scheduler.model.eligibility import OPEN
from scheduler.model.lifecycle import RuntimeNeed
from scheduler.model.request import Choice, Config, Request, interned

_CACHED = 1 << 16


@dataclass(frozen=True, slots=True)
class Demand:
    """A request with one choice, its present locality, the ids of the nodes closed to the job, and its batch size.

    Demands compare and hash by these four. The other fields repeat fields of the request, because placements read them
    for each node. `gpu_type` is None only for a demand without GPUs. Sizes are per node. A divisible lot may lie on any
    number of nodes: `gpus` is its total, CPUs and MiB are per GPU.
    """

    request: Request
    within: Locality = Locality.ANY
    closed: frozenset[int] = OPEN
    batch: int | None = None
    gpu_type: str | None = field(init=False, compare=False, repr=False)
    gpus: int = field(init=False, compare=False, repr=False)
    nodes: int = field(init=False, compare=False, repr=False)
    cpus: int = field(init=False, compare=False, repr=False)
    memory_mib: int = field(init=False, compare=False, repr=False)
    divisible: bool = field(init=False, compare=False, repr=False)
    config: Config = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        request = self.request
        (choice,) = request.choices
        object.__setattr__(self, "gpu_type", choice.gpu_type)
        object.__setattr__(self, "gpus", choice.gpus)
        object.__setattr__(self, "nodes", request.nodes)
        object.__setattr__(self, "cpus", choice.cpus)
        object.__setattr__(self, "memory_mib", choice.memory_mib)
        object.__setattr__(self, "divisible", request.divisible)
        gpus = choice.gpus * request.nodes
        nodes = None if request.divisible else request.nodes
        object.__setattr__(self, "config", Config(choice.gpu_type, gpus, self.within, nodes, self.batch))

    @property
    def choice(self) -> Choice:
        """The GPU type and size."""
        return self.request.choices[0]

    @property
    def runtime(self) -> RuntimeNeed:
        """The runtime that the job needs."""
        return self.request.runtime

    @property
    def names_nodes(self) -> bool:
        """True if the job allows some nodes only. All other nodes are closed to it."""
        return bool(self.request.narrowing)

    @property
    def gpus_total(self) -> int:
        """The GPUs on all nodes."""
        return self.gpus * self.nodes

    def relaxed(self, within: Locality) -> Demand:
        """The demand with another locality."""
        return demand_of(self.request, within=within, closed=self.closed)

    def closed_to(self, closed: frozenset[int]) -> Demand:
        """The demand with other nodes closed."""
        return demand_of(self.request, within=self.within, closed=closed)


@lru_cache(maxsize=_CACHED)
def demand_of(
    request: Request, choice: Choice | None = None, *, within: Locality | None = None, closed: frozenset[int] = OPEN
) -> Demand:
    """The demand for one choice of the request, by default for its only one; equal arguments give one object.

    Without `within`, the locality is that of the request.
    """
    given = request if choice is None else interned(request.given(choice))
    return Demand(given, given.locality if within is None else within, closed)
