"""Cells from measured topology: levels where the hardware has them, names that do not change with other nodes."""

from __future__ import annotations

from scheduler.admission.hived.config import Assignment
from scheduler.admission.hived.measured import measured
from scheduler.admission.hived.pool import Cells
from scheduler.model import Gpu, Node

SOCKETS = tuple(tuple(3 if a // 2 == b // 2 else 2 if a // 4 == b // 4 else 1 for b in range(8)) for a in range(8))
MESH = tuple(tuple(5 for _ in range(8)) for _ in range(8))


def _node(name: str, rack: str = "", *types: str, links: tuple[tuple[int, ...], ...] = ()) -> Node:
    gpus = tuple(
        Gpu(id=index, node_id=1, index=index, uuid="", type=kind, memory_mib=1, healthy=True)
        for index, kind in enumerate(types)
    )
    return Node(
        id=1, name=name, rack=rack, cpus=1, memory_mib=1, version=1, schedulable=True, unschedulable_reason="",
        gpus=gpus, links=links,
    )  # fmt: skip


def _a100(name: str, rack: str = "", links: tuple[tuple[int, ...], ...] = SOCKETS) -> Node:
    return _node(name, rack, *["A100"] * 8, links=links)


def test_a_rack_of_alike_nodes_is_a_cell_with_sockets_and_pairs() -> None:
    config = measured([_a100(f"n{n}", "r1") for n in range(4)])
    assert list(config.chains) == ["4-A100x8-NODE"]
    chain = config.chains["4-A100x8-NODE"]
    assert chain.types == ("A100", "A100x8-PAIR", "A100x8-SOCKET", "A100x8-NODE", "4-A100x8-NODE")
    assert chain.sizes == (1, 2, 4, 8, 32)
    assert chain.node == 3
    address = Cells(config).topology.address
    assert {"r1", "r1/n0", "r1/n0/4-7", "r1/n0/4-7/6-7", "r1/n3/0-3/0-1/1"} <= set(address)


def test_a_level_exists_only_where_all_nodes_of_the_kind_have_it() -> None:
    mixed = measured([_a100("n0"), _a100("n1", links=MESH)])
    assert mixed.chains["A100x8-NODE"].types == ("A100", "A100x8-NODE")
    unknown = measured([_a100("n0"), _a100("n1", links=())])
    assert unknown.chains["A100x8-NODE"].types == ("A100", "A100x8-PAIR", "A100x8-SOCKET", "A100x8-NODE")


def test_groups_follow_the_links_and_not_the_indexes() -> None:
    links = tuple(tuple(9 if a % 2 == b % 2 else 1 for b in range(4)) for a in range(4))
    cells = Cells(measured([_node("n", "", *["T4"] * 4, links=links)]))
    assert {"n/0+2", "n/1+3", "n/1+3/3"} <= set(cells.topology.address)


def test_a_node_with_two_types_is_two_cells_and_a_single_gpu_is_a_node() -> None:
    config = measured([_node("n", "r", "A", "A", "B"), _node("m", "r", "A", "A")])
    assert {name: chain.types for name, chain in config.chains.items()} == {
        "2-Ax2-NODE": ("A", "Ax2-NODE", "2-Ax2-NODE"),
        "Bx1-NODE": ("B", "Bx1-NODE"),
    }


def test_a_node_that_joins_changes_only_its_rack() -> None:
    before = [_a100(f"n{n}", f"r{n // 2}") for n in range(4)]
    after = measured([*before, _a100("n9", "r1"), _node("x", "r0", "A100", "A100")])
    assert set(after.chains) == {"2-A100x8-NODE", "3-A100x8-NODE", "A100x2-NODE"}
    assert [cell for name, cell in after.physical if name == "2-A100x8-NODE"] == [measured(before).physical[0][1]]


def test_a_cell_is_pinned_by_its_address() -> None:
    config = measured([_a100(f"n{n}", "r1") for n in range(2)], ["r1/n0/0-3", "r1/n1"])
    cells = Cells(config.assign({"a": Assignment({}, ("r1/n0/0-3",)), "b": Assignment({}, ("r1/n1",))}))
    assert [(territory.pin, territory.size) for territory in cells.topology.territories] == [
        ("r1/n0/0-3", 4),
        ("r1/n1", 8),
    ]


def test_no_nodes_are_no_cells() -> None:
    assert measured([]).chains == {}
