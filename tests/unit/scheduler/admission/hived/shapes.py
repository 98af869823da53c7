"""Small configurations of cells for the tests."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.admission.hived.config import Assignment, CellConfig, CellType, PhysicalCell

TYPES = {
    "2-NODE": CellType("NODE", 2),
    "NODE": CellType("PAIR", 2, node=True),
    "PAIR": CellType("GPU", 2),
}
RACK, NODE, PAIR, GPU = "2-NODE", "2-NODE.NODE", "2-NODE.NODE.PAIR", "2-NODE.NODE.PAIR.GPU"


def node(name: str, *, pinned: str = "") -> PhysicalCell:
    """A node of four GPUs in two pairs."""
    pairs = [PhysicalCell(str(n), tuple(PhysicalCell(str(2 * n + m)) for m in range(2))) for n in range(2)]
    return PhysicalCell(name, tuple(pairs), pinned)


def racks(count: int, clusters: Mapping[str, Assignment], *, pins: Mapping[str, str] | None = None) -> CellConfig:
    """Racks of two nodes a0, a1, b0, b1 and so on; `pins` names the pinned cell of some nodes."""
    pinned = pins or {}
    cells = []
    for number in range(count):
        names = [f"{chr(ord('a') + number)}{n}" for n in range(2)]
        cells.append(("2-NODE", PhysicalCell(str(number), tuple(node(n, pinned=pinned.get(n, "")) for n in names))))
    return CellConfig(TYPES, tuple(cells), clusters)
