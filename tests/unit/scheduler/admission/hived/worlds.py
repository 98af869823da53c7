"""Random pools of cells, their assignments to virtual clusters, and traces of jobs, for the properties."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from hypothesis import strategies as st

from scheduler.admission.hived.config import Assignment, CellConfig, CellType, PhysicalCell

MAX_VCS = 3


@dataclass(frozen=True, slots=True)
class Trial:
    """A job of a trace: it arrives, and runs for so long once it has started."""

    number: int
    vc: str
    arrives: int
    runs: int
    pods: tuple[int, ...]
    priority: int
    leaf_type: str | None


def _tree(kind: str, types: Mapping[str, CellType], nodes: list[str], number: int = 0) -> PhysicalCell:
    spec = types.get(kind)
    if spec is None:
        return PhysicalCell(str(number))
    address, first = str(number), number * spec.number
    if spec.node:
        nodes.append(f"n{len(nodes)}")
        address, first = nodes[-1], 0
    return PhysicalCell(address, tuple(_tree(spec.child, types, nodes, first + at) for at in range(spec.number)))


@st.composite
def pools(draw: st.DrawFn) -> CellConfig:
    """A pool of one or two chains with two to four levels each, every cell of which may be assigned."""
    types: dict[str, CellType] = {}
    tops: list[str] = []
    for number in range(draw(st.integers(1, 2))):
        fanout = draw(st.lists(st.integers(2, 3), min_size=1, max_size=3))
        node = draw(st.integers(1, len(fanout)))
        for level, count in enumerate(fanout, start=1):
            child = f"L{level - 1}-{number}" if level > 1 else "GPU"
            types[f"L{level}-{number}"] = CellType(child, count, node=level == node)
        tops += [f"L{len(fanout)}-{number}"] * draw(st.integers(1, 3))
    nodes: list[str] = []
    config = CellConfig(types, tuple((top, _tree(top, types, nodes, at)) for at, top in enumerate(tops)), {})
    return config.assign(draw(_shares(config)))


@st.composite
def _shares(draw: st.DrawFn, config: CellConfig) -> dict[str, Assignment]:
    """Cut the cells from the top down: each is given to a virtual cluster, cut further, or kept."""
    owned: dict[str, Counter[str]] = {f"vc{number}": Counter() for number in range(draw(st.integers(1, MAX_VCS)))}
    for name, _ in config.physical:
        chain = config.chains[name]
        stack = [chain.top]
        while stack:
            level = stack.pop()
            lot = draw(st.integers(0, 2 * len(owned)))
            if lot < len(owned):
                owned[f"vc{lot}"][chain.path(level)] += 1
            elif level and lot < 2 * len(owned):
                stack += [level - 1] * chain.fanout[level]
    return {vc: Assignment(dict(cells)) for vc, cells in owned.items()}


def trial(config: CellConfig, random: Random, number: int, *, latest: int = 0) -> Trial:
    """A job of some virtual cluster: mostly whole pods of the sizes of cells, one in four opportunistic."""
    chain = random.choice(sorted(config.chains.values(), key=lambda chain: chain.name))
    sizes = chain.sizes[: chain.node + 1]
    pods = tuple(
        random.choice(sizes) if random.random() < 0.7 else random.randint(1, sizes[-1])
        for _ in range(random.choice((1, 1, 1, 2, 3)))
    )
    return Trial(
        number=number,
        vc=random.choice(sorted(config.clusters)),
        arrives=random.randint(0, latest),
        runs=random.randint(1, 6),
        pods=pods,
        priority=random.choice((-1, 0, 0, 1)),
        leaf_type="GPU",
    )


def trace(config: CellConfig, random: Random) -> list[Trial]:
    """Twenty jobs."""
    return [trial(config, random, number, latest=10) for number in range(20)]
