"""The states of nodes in Slurm's words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from scheduler.model.lifecycle import NodeAdmin, NodeHealth


class Base(StrEnum):
    """The state of a node apart from what operators want of it."""

    UNKNOWN = "unknown"
    """No agent has ever registered it."""
    DOWN = "down"
    IDLE = "idle"
    ALLOCATED = "allocated"
    """Jobs have all of its CPUs."""
    MIXED = "mixed"
    """Jobs have some of it."""


# In the order in which rows of one partition are listed.
_ORDER = (Base.MIXED, Base.ALLOCATED, Base.IDLE, Base.DOWN, Base.UNKNOWN)
_SHORT = {
    "unknown": "unk",
    "allocated": "alloc",
    "mixed": "mix",
    "drained": "drain",
    "draining": "drng",
    "planned": "plnd",
}
_BUSY = frozenset({Base.ALLOCATED, Base.MIXED})


@dataclass(frozen=True, slots=True)
class NodeState:
    """The state of a node."""

    base: Base
    drain: bool = False
    """No further job may start there."""
    planned: bool = False
    """GPUs that are free are kept for a job that starts soon."""
    silent: bool = False
    """Its agent does not answer."""

    @property
    def long(self) -> str:
        """Its name, with `*` if its agent does not answer."""
        if self.drain:
            name = "draining" if self.base in _BUSY else "drained"
        else:
            name = "planned" if self.planned and self.base is Base.IDLE else self.base.value
        return f"{name}*" if self.silent else name

    @property
    def short(self) -> str:
        """Its name as `%t` has it."""
        name = self.long.removesuffix("*")
        return _SHORT.get(name, name) + ("*" if self.silent else "")

    @property
    def order(self) -> tuple[bool, bool, int]:
        """Its place among the rows of a partition."""
        return not self.silent, not self.drain, _ORDER.index(self.base)

    @property
    def usable(self) -> bool:
        """True if the node counts as idle or allocated, and not as "other"."""
        return self.base in _BUSY or (self.base is Base.IDLE and not self.drain)


def state_of(
    *, admin: str, health: str, barred: bool, cpus: int, cpus_held: int, holds: bool, planned: bool
) -> NodeState:
    """The state of a node; `holds`: a job has some of it."""
    if health == NodeHealth.PENDING:
        base = Base.UNKNOWN
    elif health == NodeHealth.DOWN:
        base = Base.DOWN
    elif holds:
        base = Base.ALLOCATED if cpus_held >= cpus else Base.MIXED
    else:
        base = Base.IDLE
    return NodeState(
        base,
        drain=admin != NodeAdmin.ACTIVE or barred,
        planned=planned,
        silent=health != NodeHealth.READY,
    )


Test = Callable[[NodeState], bool]


def _never(_: NodeState) -> bool:
    return False


# The tests by the names that `-t` takes. Of the last ones no node here is ever in.
_TESTS: Mapping[str, Test] = {
    "unknown": lambda state: state.base is Base.UNKNOWN,
    "down": lambda state: state.base is Base.DOWN,
    "idle": lambda state: state.base is Base.IDLE,
    "allocated": lambda state: state.base in _BUSY,
    "mixed": lambda state: state.base is Base.MIXED and not state.drain,
    "drain": lambda state: state.drain,
    "drained": lambda state: state.drain and state.base not in _BUSY,
    "draining": lambda state: state.drain and state.base in _BUSY,
    "no_respond": lambda state: state.silent,
    "planned": lambda state: state.planned,
    **dict.fromkeys(
        (
            *("future", "reserved", "perfctrs", "cloud", "completing", "powering_down", "powered_down", "power_down"),
            *("powering_up", "fail", "maint", "reboot"),
        ),
        _never,
    ),
}
_ALIASES = {"alloc": "allocated", "mix": "mixed", "drng": "draining", "plnd": "planned", "resv": "reserved"}
_ALIASES |= {"comp": "completing", "unk": "unknown"}
STATE_NAMES = ",".join(_TESTS)


def tests_of(text: str) -> list[Test] | None:
    """The tests of a list of state names, one of which is enough; None for `all`.

    Raises:
        ValueError: there is no such state; has the word.
    """
    tests = []
    for word in text.lower().split(","):
        if word == "all":
            return None
        name = _ALIASES.get(word, word)
        if name not in _TESTS:
            raise ValueError(word)
        tests.append(_TESTS[name])
    return tests
