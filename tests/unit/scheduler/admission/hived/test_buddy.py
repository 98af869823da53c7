"""Physical cells for a virtual cluster when the nearest ones are bad."""

from __future__ import annotations

from scheduler.admission.hived.config import Assignment
from scheduler.admission.hived.pool import Cells
from scheduler.admission.hived.want import Placed, Wait, Want
from tests.unit.scheduler.admission.hived.shapes import NODE, RACK, racks


def _node_of(cells: Cells, group: str) -> str:
    placed = cells.place(Want(group, "a", 0, (4,), "GPU"))
    assert isinstance(placed, Placed)
    assert cells.take(group, "a", 0, placed.pods[0])
    return placed.pods[0][0].node


def test_a_rack_is_split_for_a_node_when_the_free_node_is_bad_and_the_rack_is_not_promised() -> None:
    cells = Cells(racks(2, {"a": Assignment({NODE: 2})}))
    assert _node_of(cells, "first") == "a0"
    cells.set_healthy("a1", healthy=False)
    assert _node_of(cells, "second") == "b0"
    assert cells.is_safe()


def test_a_rack_that_is_promised_is_not_split() -> None:
    cells = Cells(racks(2, {"a": Assignment({NODE: 2}), "b": Assignment({RACK: 1})}))
    assert _node_of(cells, "first") == "a0"
    cells.set_healthy("a1", healthy=False)
    assert isinstance(cells.place(Want("second", "a", 0, (4,), "GPU")), Wait)
    cells.set_healthy("a1", healthy=True)
    assert _node_of(cells, "second") == "a1"


def test_no_rack_is_split_that_is_promised() -> None:
    cells = Cells(racks(3, {"a": Assignment({NODE: 2}), "b": Assignment({RACK: 1})}))
    assert _node_of(cells, "first") == "a0"
    for node in ("a1", "b0", "b1"):
        cells.set_healthy(node, healthy=False)
    assert isinstance(cells.place(Want("second", "a", 0, (4,), "GPU")), Wait)
