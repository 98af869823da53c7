"""The request of a job: everything that decides where it fits, such as GPU types, sizes, nodes and locality.

Jobs with equal requests fit in the same places. The time limit and the grace are not part of the request. An attempt
has a request with exactly one choice, on which it was placed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any

from scheduler.model.codec import from_json
from scheduler.model.lifecycle import Locality, RuntimeNeed

# The number of distinct requests to intern: more than a large pool has waiting.
_INTERNED = 1 << 16
# The fields by which a request allows some nodes only, as `scheduler.model.eligibility` judges.
NODE_FIELDS = ("nodes_in", "exclude_nodes", "node_labels")


class RequestError(ValueError):
    """A contradictory request. `field` names the wrong field, and the message begins with it."""

    def __init__(self, field: str, problem: str) -> None:
        self.field = field
        super().__init__(f"{field}: {problem}")


@dataclass(frozen=True, slots=True)
class Choice:
    """One acceptable GPU type and the size that goes with it; all sizes are for one node.

    `gpu_type` None stands for any one type of the pool. A choice without GPUs names no type.

    Raises:
        RequestError: a size is negative, or a GPU type is named for 0 GPUs.
    """

    gpu_type: str | None
    gpus: int
    cpus: int
    memory_mib: int

    def __post_init__(self) -> None:
        for name, value in (("gpus", self.gpus), ("cpus", self.cpus), ("memory_mib", self.memory_mib)):
            if value < 0:
                raise RequestError(f"choices.{name}", f"{value} is negative")
        if self.gpu_type == "":
            raise RequestError("choices.gpu_type", "the GPU type has no name")
        if self.gpu_type is not None and not self.gpus:
            raise RequestError("choices.gpu_type", f"{self.gpu_type} is named for 0 GPUs")

    def __str__(self) -> str:
        """`A100:4`, as in a job spec; `4` for any type."""
        return str(self.gpus) if self.gpu_type is None else f"{self.gpu_type}:{self.gpus}"


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration of a job: `gpus` of one type on all its nodes together, no further apart than `locality`.

    `gpu_type` is None only for a job without GPUs. `locality` None is the job's own, and `nodes` None any number of
    nodes that the job accepts in this size. The job is told its `batch` size; None is its own.
    """

    gpu_type: str | None
    gpus: int
    locality: Locality | None = None
    nodes: int | None = None
    batch: int | None = None

    def __str__(self) -> str:
        """`A100:4`, as in a job spec, or `A100:4 with batch size 64`."""
        size = f"{self.gpu_type}:{self.gpus}" if self.gpu_type is not None else "no GPUs"
        return size if self.batch is None else f"{size} with batch size {self.batch}"


class Over(StrEnum):
    """The unit of an elastic job's sizes: GPUs on each of its nodes, or GPUs of its gang on any number of nodes."""

    NODE = "node"
    GANG = "gang"


@dataclass(frozen=True, slots=True)
class ElasticRange:
    """The sizes between which a policy may resize a job, in GPUs `over` a node or a gang; both ends are included.

    Raises:
        RequestError: the range is empty, or begins below 1.
    """

    min_gpus: int
    max_gpus: int
    over: Over = Over.NODE

    def __post_init__(self) -> None:
        if self.min_gpus < 1:
            raise RequestError("elastic.min_gpus", f"{self.min_gpus} is less than 1")
        if self.max_gpus < self.min_gpus:
            raise RequestError("elastic.max_gpus", f"{self.max_gpus} is less than min_gpus, {self.min_gpus}")


class _CachesHash:
    """A slot for the cached hash. A copy in another process computes its own."""

    __slots__ = ("_hash",)
    _hash: int


@dataclass(frozen=True, slots=True)
class Request(_CachesHash):
    """A gang of `nodes` ranks, each on its own node, in the size of one of the `choices`.

    - `choices` are in order of preference.
    - `nodes_in` and `exclude_nodes` are node names. An empty `nodes_in` allows all nodes.
    - `node_labels` are labels that each of its nodes has, with their values.
    - `shares_gpu` allows another job on the same GPUs; `gpu_memory_mib` is the memory that the job needs on each.
    - A `divisible` job is one lot of GPUs on any number of nodes. Its CPUs and memory are per GPU.
    - `elastic` is the range in which a policy may resize the job. Over a gang, `nodes` are those of the size that the
      job asks for.
    - `resources` are amounts of generic resources by name.

    Names are stored in ascending order, so that equal requests are equal values.

    Raises:
        RequestError: the values contradict each other; it names the field.
    """

    choices: tuple[Choice, ...]
    nodes: int = 1
    locality: Locality = Locality.ANY
    nodes_in: tuple[str, ...] = ()
    exclude_nodes: tuple[str, ...] = ()
    node_labels: tuple[tuple[str, str], ...] = ()
    shares_gpu: bool = False
    gpu_memory_mib: int | None = None
    divisible: bool = False
    elastic: ElasticRange | None = None
    runtime: RuntimeNeed = RuntimeNeed.ANY
    resources: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        _check_choices(self.choices)
        if self.nodes < 1:
            raise RequestError("nodes", f"{self.nodes} is less than 1")
        for name, names in (("nodes_in", self.nodes_in), ("exclude_nodes", self.exclude_nodes)):
            if "" in names:
                raise RequestError(name, "a node has no name")
            object.__setattr__(self, name, tuple(sorted(set(names))))
        if self.nodes_in and not set(self.nodes_in) - set(self.exclude_nodes):
            raise RequestError("exclude_nodes", f"no node is left of nodes_in: {', '.join(self.nodes_in)}")
        if self.gpu_memory_mib is not None and self.gpu_memory_mib < 0:
            raise RequestError("gpu_memory_mib", f"{self.gpu_memory_mib} is negative")
        if self.divisible and self.nodes != 1:
            raise RequestError("nodes", f"a divisible job has nodes 1, not {self.nodes}")
        if self.elastic is not None and not self.needs_gpus:
            raise RequestError("elastic", "a job without GPUs has no range of them")
        if self.divisible and self.over_gang:
            raise RequestError("elastic", "a divisible job has no equal number of GPUs on each node")
        object.__setattr__(self, "node_labels", tuple(sorted(self.node_labels)))
        object.__setattr__(self, "resources", _checked_resources(self.resources))

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            values = (
                *(self.choices, self.nodes, self.locality, *self.narrowing, self.shares_gpu),
                *(self.gpu_memory_mib, self.divisible, self.elastic, self.runtime, self.resources),
            )
            value = values.__hash__()
            object.__setattr__(self, "_hash", value)
            return value

    @property
    def first(self) -> Choice:
        """The preferred choice."""
        return self.choices[0]

    @property
    def narrowing(self) -> tuple[tuple[Any, ...], ...]:
        """The values by which it allows some nodes only: those of `NODE_FIELDS`; empty if it allows all."""
        if self.nodes_in or self.exclude_nodes or self.node_labels:
            return self.nodes_in, self.exclude_nodes, self.node_labels
        return ()

    @property
    def on_any_node(self) -> Request:
        """The request without what narrows its nodes."""
        return replace(self, nodes_in=(), exclude_nodes=(), node_labels=())

    @property
    def gpus_total(self) -> int:
        """The GPUs of the whole gang in the preferred choice."""
        return self.choices[0].gpus * self.nodes

    @property
    def needs_gpus(self) -> bool:
        """True if the job needs GPUs."""
        return self.choices[0].gpus > 0

    @property
    def gpu_types(self) -> tuple[str, ...]:
        """The named GPU types in order of preference; empty for any type or no GPUs."""
        return tuple(choice.gpu_type for choice in self.choices if choice.gpu_type is not None)

    def types_among(self, gpu_types: Sequence[str]) -> Sequence[str]:
        """The GPU types of a pool that the job accepts, in order of preference."""
        return tuple(kind for kind in self.gpu_types if kind in gpu_types) if self.gpu_types else gpu_types

    def choices_among(self, gpu_types: Sequence[str]) -> tuple[Choice, ...]:
        """The choices with these GPU types, each with its type filled in, in order of preference.

        If none has one of these types, returns all choices, so that a denial can name them.
        """
        if not self.needs_gpus:
            return self.choices
        if self.choices[0].gpu_type is None:
            return tuple(_on_type(self.choices[0], kind) for kind in gpu_types or ("any",))
        return tuple(choice for choice in self.choices if choice.gpu_type in gpu_types) or self.choices

    def choice_of(self, gpu_type: str | None) -> Choice | None:
        """The choice for this GPU type, with the type filled in; None if the job does not accept it."""
        for choice in self.choices:
            if choice.gpu_type == gpu_type or not choice.gpus:
                return choice
            if choice.gpu_type is None:
                return _on_type(choice, gpu_type)
        return None

    def resized(self, choice: Choice, gpus: int) -> Choice:
        """The choice with another number of GPUs. CPUs and memory of an indivisible job scale with it, rounded up."""
        if gpus == choice.gpus:
            return choice
        if self.divisible or not choice.gpus:
            return replace(choice, gpus=gpus)
        cpus, memory_mib = -(-choice.cpus * gpus // choice.gpus), -(-choice.memory_mib * gpus // choice.gpus)
        return replace(choice, gpus=gpus, cpus=cpus, memory_mib=memory_mib)

    @property
    def over_gang(self) -> bool:
        """True if its sizes are GPUs of the whole gang, on any number of nodes."""
        return self.elastic is not None and self.elastic.over is Over.GANG

    def sizes(self, choice: Choice) -> tuple[int, ...]:
        """The sizes of the job on the type of the choice, in GPUs of the whole gang.

        The size that the job asks for comes first, then the others of its elastic range, ascending.
        """
        asked = choice.gpus * self.nodes
        return (asked, *(gpus for gpus in self._range() if gpus != asked))

    def in_size(self, choice: Choice, gpus: int) -> tuple[Request, ...]:
        """The requests of attempts that have `gpus` of the type of the choice in all, by preference.

        A job that is elastic over its gang has as few nodes as possible, each with equally many GPUs; the nodes of any
        other job are given. Empty: the GPUs cannot be divided equally.
        """
        return _in_size(self, choice, gpus)

    def accepts(self, given: Choice, nodes: int) -> bool:
        """True if the job may run on `nodes` nodes in exactly this size, that of a choice or one in its range."""
        choice = self.choice_of(given.gpu_type)
        if choice is None or (choice == given and nodes == self.nodes):
            return choice is not None
        if nodes < 1 or not (self.over_gang or nodes == self.nodes) or not self.has_size(choice, given.gpus * nodes):
            return False
        return given == self.resized(choice, given.gpus)

    def has_size(self, choice: Choice, gpus: int) -> bool:
        """True if `gpus` of the whole gang are one of `sizes`."""
        return gpus == choice.gpus * self.nodes or gpus in self._range()

    def _range(self) -> range:
        """The sizes of the elastic range in GPUs of the whole gang; empty without one."""
        if self.elastic is None:
            return range(0)
        step = 1 if self.over_gang else self.nodes
        return range(self.elastic.min_gpus * step, self.elastic.max_gpus * step + 1, step)

    def gpus_on(self, gpu_type: str | None) -> int:
        """GPUs of the whole gang in the choice for this type; 0 where the job does not accept the type."""
        for choice in self.choices:
            if choice.gpu_type in (None, gpu_type):
                return choice.gpus * self.nodes
        return 0

    @property
    def min_gpus(self) -> int:
        """The fewest GPUs of the whole gang in its elastic range; 0 without one."""
        return min(self._range()[:1], default=0)

    @property
    def max_gpus(self) -> int:
        """The most GPUs of the whole gang in its elastic range; 0 without one."""
        return max(self._range()[-1:], default=0)

    @property
    def only_type(self) -> str | None:
        """The one GPU type that the job accepts; None where it accepts several, or any."""
        return self.choices[0].gpu_type if len(self.choices) == 1 else None

    def given(self, choice: Choice, nodes: int | None = None) -> Request:
        """The request of an attempt that runs in this choice on `nodes`, by default those that the job asks for.

        It has one choice and no elastic range.
        """
        nodes = self.nodes if nodes is None else nodes
        if self.elastic is None and self.choices == (choice,) and self.nodes == nodes:
            return self
        return _given(self, choice, nodes)


@lru_cache(maxsize=_INTERNED)
def _on_type(choice: Choice, gpu_type: str | None) -> Choice:
    return replace(choice, gpu_type=gpu_type)


@lru_cache(maxsize=_INTERNED)
def _given(request: Request, choice: Choice, nodes: int) -> Request:
    return interned(replace(request, choices=(choice,), nodes=nodes, elastic=None))


@lru_cache(maxsize=_INTERNED)
def _in_size(request: Request, choice: Choice, gpus: int) -> tuple[Request, ...]:
    counts = range(1, gpus + 1) if request.over_gang else (request.nodes,)
    return tuple(request.given(request.resized(choice, gpus // nodes), nodes) for nodes in counts if gpus % nodes == 0)


@lru_cache(maxsize=_INTERNED)
def interned(request: Request) -> Request:
    """One shared value for equal requests, so that dicts compare identities first."""
    return request


@lru_cache(maxsize=_INTERNED)
def request_of(
    *,
    gpu_type: str | None = None,
    gpus: int = 0,
    nodes: int = 1,
    cpus: int = 0,
    memory_mib: int = 0,
    gpu_types: tuple[str, ...] = (),
    locality: Locality = Locality.ANY,
    split: bool = False,
    min_gpus: int = 1,
    max_gpus: int = 0,
    over: Over = Over.NODE,
    packs: bool = False,
    gpu_memory_mib: int | None = None,
    form: RuntimeNeed = RuntimeNeed.ANY,
) -> Request:
    """The interned request of one size for a GPU type, for several `gpu_types` in order, or for any type.

    `split` makes the job divisible, `max_gpus` above 0 elastic from `min_gpus` `over` a node or its gang, and `packs`
    share its GPUs; `form` is the runtime that it needs.
    """
    types = ((gpu_type,) if gpu_type else gpu_types or (None,)) if gpus else (None,)
    request = Request(
        choices=tuple(Choice(kind, gpus, cpus, memory_mib) for kind in types),
        nodes=nodes,
        locality=locality,
        shares_gpu=packs,
        gpu_memory_mib=gpu_memory_mib,
        divisible=split,
        elastic=ElasticRange(min_gpus, max_gpus, over) if max_gpus else None,
        runtime=form,
    )
    return interned(request)


# The parameters of `request_of`.
REQUEST_FIELDS = frozenset(
    {
        *("gpu_type", "gpus", "nodes", "cpus", "memory_mib", "gpu_types", "locality", "split", "packs"),
        *("min_gpus", "max_gpus", "over", "gpu_memory_mib", "form"),
    }
)


def request_from_dict(data: object) -> Request:
    """The request that `to_json` made `data` from.

    Raises:
        CodecError: a field is missing, unknown or of another type.
        RequestError: the values contradict each other.
    """
    return interned(from_json(Request, data))


def words_for_choices(choices: Iterable[Choice]) -> str:
    """`A100:4 or V100:8`."""
    return " or ".join(map(str, choices))


def _check_choices(choices: tuple[Choice, ...]) -> None:
    if not choices:
        raise RequestError("choices", "there is none")
    if len(choices) == 1:
        return
    types = [choice.gpu_type for choice in choices]
    if not all(choice.gpus for choice in choices):
        raise RequestError("choices", "one without GPUs stands beside others")
    if None in types:
        raise RequestError("choices", "any GPU type stands beside named ones")
    twice = next((kind for kind in types if types.count(kind) > 1), None)
    if twice is not None:
        raise RequestError("choices", f"{twice} is named twice")


def _checked_resources(resources: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    names = [name for name, _ in resources]
    for name, amount in resources:
        if not name:
            raise RequestError("resources", "a resource has no name")
        if names.count(name) > 1:
            raise RequestError("resources", f"{name} is named twice")
        if amount < 1:
            raise RequestError("resources", f"{amount} of {name} is less than 1")
    return tuple(sorted(resources))
