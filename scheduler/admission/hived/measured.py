"""The physical cells of a pool, from the measured topology of its nodes.

GPUs that are closest by their links make up a pair, pairs a socket, sockets a node, and alike nodes of one rack a rack:
a level exists where all nodes of a kind divide evenly by it. A kind of node is a GPU type and a number of GPUs, such as
A100x8. A node with two GPU types is two cells. Racks of different sizes have different types, such as 4-A100x8-NODE.

The address of a cell names its rack, its node and the range of its GPUs, such as r1/n4/0-3. A cell is pinned by it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache

from scheduler.admission.hived.config import CellConfig, CellType, PhysicalCell
from scheduler.model import Node

PAIR = 2

Links = tuple[tuple[int, ...], ...]
Shape = tuple[str, str, tuple[tuple[int, str], ...], Links]
"""A node: its name, its rack, the index and the type of each GPU, and their links."""
Kind = tuple[str, int]
Grouping = tuple[tuple[int, ...], ...]
"""The indexes of the GPUs of a node, divided into equally many."""


def measured(nodes: Iterable[Node], pins: Collection[str] = ()) -> CellConfig:
    """The cells of these nodes, assigned to no virtual cluster; cells at the addresses `pins` are pinned by them."""
    shapes = tuple(
        sorted((node.name, node.rack, tuple((gpu.index, gpu.type) for gpu in node.gpus), node.links) for node in nodes)
    )
    return _measured(shapes, frozenset(pins))


# Hardware changes seldom, and decisions are many.
@lru_cache(maxsize=32)
def _measured(shapes: tuple[Shape, ...], pins: frozenset[str]) -> CellConfig:
    members: dict[Kind, dict[str, tuple[str, tuple[int, ...], Links]]] = {}
    for name, rack, gpus, links in shapes:
        for gpu_type in sorted({each for _, each in gpus}):
            indexes = tuple(sorted(index for index, each in gpus if each == gpu_type))
            members.setdefault((gpu_type, len(indexes)), {})[name] = (rack, indexes, links)
    types: dict[str, CellType] = {}
    physical: list[tuple[str, PhysicalCell]] = []
    for kind, nodes in sorted(members.items()):
        node_type = _name(kind, kind[1])
        divisions = {name: _divisions(indexes, links) for name, (_, indexes, links) in nodes.items()}
        sizes = _common_sizes(kind[1], [division for division in divisions.values() if division is not None])
        _declare(kind, sizes, types)
        racks: dict[str, list[str]] = {}
        for name, (rack, _, _) in nodes.items():
            racks.setdefault(rack, []).append(name)
        for rack, names in sorted(racks.items()):
            alone = not rack or len(names) == 1
            prefix = "" if alone else f"{rack}/"
            cells = [
                _cell(name, nodes[name][1], _groupings(nodes[name][1], sizes, divisions[name]), prefix, pins)
                for name in names
            ]
            if alone:
                physical += [(node_type, cell) for cell in cells]
                continue
            top = f"{len(names)}-{node_type}"
            types[top] = CellType(node_type, len(names))
            physical.append((top, PhysicalCell(rack, tuple(cells), rack if rack in pins else "")))
    return CellConfig(types, tuple(physical), {})


def _name(kind: Kind, size: int) -> str:
    gpu_type, gpus = kind
    level = f"{size}-GPU"
    if size == gpus:
        level = "NODE"
    elif size == PAIR:
        level = "PAIR"
    elif size == gpus // 2:
        level = "SOCKET"
    return f"{gpu_type}x{gpus}-{level}"


def _declare(kind: Kind, sizes: Sequence[int], types: dict[str, CellType]) -> None:
    child, below = kind[0], 1
    for size in (*sizes, kind[1]):
        types[_name(kind, size)] = CellType(child, size // below, node=size == kind[1])
        child, below = _name(kind, size), size


def _divisions(indexes: Sequence[int], links: Links) -> Mapping[int, Grouping] | None:
    """The ways to divide the GPUs into equal groups closer than all else, by size; None: no links are known."""
    if any(index >= len(links) or len(links[index]) <= max(indexes) for index in indexes):
        return None
    close = {(a, b): max(links[a][b], links[b][a]) for a in indexes for b in indexes if a < b}
    found: dict[int, Grouping] = {}
    for least in sorted(set(close.values()), reverse=True):
        groups = {index: {index} for index in indexes}
        for (a, b), closeness in close.items():
            if closeness >= least and groups[a] is not groups[b]:
                groups[a] |= groups[b]
                for index in groups[b]:
                    groups[index] = groups[a]
        grouping = tuple(sorted({tuple(sorted(group)) for group in groups.values()}))
        size = len(grouping[0])
        if 1 < size < len(indexes) and all(len(group) == size for group in grouping):
            found.setdefault(size, grouping)
    return found


def _common_sizes(gpus: int, divisions: Sequence[Mapping[int, Grouping]]) -> list[int]:
    """The sizes of groups that all nodes with known links have, each a part of the next."""
    sizes = sorted(set.intersection(*(set(division) for division in divisions))) if divisions else []
    kept: list[int] = []
    for size in sizes:
        if size % (kept[-1] if kept else 1) == 0 and gpus % size == 0:
            kept.append(size)
    return kept


def _groupings(indexes: Sequence[int], sizes: Sequence[int], division: Mapping[int, Grouping] | None) -> list[Grouping]:
    """The groups of each size; of a node without known links, GPUs with consecutive indexes."""
    return [
        division[size]
        if division is not None
        else tuple(tuple(indexes[at : at + size]) for at in range(0, len(indexes), size))
        for size in sizes
    ]


def _cell(
    name: str, indexes: tuple[int, ...], groupings: list[Grouping], prefix: str, pins: frozenset[str]
) -> PhysicalCell:
    """The cell of a node, or of a part of it with the groups that it consists of."""
    address = f"{prefix}{name}"
    if groupings:
        inner = [group for group in groupings[-1] if set(group) <= set(indexes)]
        parts = [_cell(_range(group), group, groupings[:-1], f"{address}/", pins) for group in inner]
    else:
        parts = [
            PhysicalCell(str(index), (), f"{address}/{index}" if f"{address}/{index}" in pins else "")
            for index in indexes
        ]
    return PhysicalCell(name, tuple(parts), address if address in pins else "")


def _range(group: Sequence[int]) -> str:
    """`0-3` for consecutive indexes, else `0+2`."""
    if group[-1] - group[0] == len(group) - 1:
        return f"{group[0]}-{group[-1]}"
    return "+".join(map(str, group))
