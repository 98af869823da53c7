"""Closeness of a node's GPUs: from its agent's registration to the GPUs that a job gets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from muster.dispatch.cycles import replay
from muster.dispatch.models import Cycle
from muster.dispatch.snapshot.snapshot import pool_snapshot
from muster.fleet.models import Gpu, Pool
from nodeagent.protocol.messages import Inventory
from tests.db.agent_calls import Agent, a100, inventory
from tests.db.stories import World, now_of, place, ranks

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sound")]

# Pairs that are no neighbours: 0-2 and 1-3.
CROSSED = ("X SYS NV4 SYS", "SYS X SYS NV4", "NV4 SYS X SYS", "SYS NV4 SYS X")
SCORES = [[0, 1, 40, 1], [1, 0, 1, 40], [40, 1, 0, 1], [1, 40, 1, 0]]


def linked(*rows: str, **fields: Any) -> Inventory:
    topology = tuple(tuple(row.split()) for row in rows)
    return inventory(*(a100(index) for index in range(len(rows))), topology=topology, **fields)


def test_a_registration_brings_the_links_into_the_snapshot(agent: Agent, world: World) -> None:
    assert agent.register(inventory=linked(*CROSSED)).status_code == 200
    assert now_of(world.nodes[0]).links == SCORES
    (node,) = pool_snapshot(world.pool, seed=1).nodes
    assert node.links == tuple(map(tuple, SCORES))


@pytest.mark.parametrize(("placement", "expected"), [("consolidate", [0, 1]), ("topology", [0, 2])])
def test_a_placement_by_topology_gives_linked_gpus(
    placement: str, expected: list[int], agent: Agent, world: World
) -> None:
    agent.register(inventory=linked(*CROSSED))
    Pool.objects.update(placement=placement)
    claims = ranks(place(world, gpus=2))[0].claims
    assert sorted(claims.values_list("gpu__index", flat=True)) == expected


def test_other_links_raise_the_version_and_the_same_do_not(agent: Agent, world: World) -> None:
    agent.register(inventory=linked("X NV4", "NV4 X"))
    version = now_of(world.nodes[0]).version
    agent.register(inventory=linked("X NV4", "NV4 X"))
    assert now_of(world.nodes[0]).version == version
    agent.register(inventory=linked("X NV2", "NV2 X"))
    assert now_of(world.nodes[0]).version == version + 1


def test_an_agent_that_tells_no_links_is_as_welcome(agent: Agent, world: World) -> None:
    agent.register(inventory=linked(*CROSSED))
    assert agent.register(inventory=inventory(a100(0), a100(1))).status_code == 200
    assert now_of(world.nodes[0]).links == []
    (node,) = pool_snapshot(world.pool, seed=1).nodes
    assert node.links == ()


def test_of_two_directions_the_weaker_counts(agent: Agent, world: World) -> None:
    agent.register(inventory=linked("X NV4", "PIX X"))
    assert now_of(world.nodes[0]).links == [[0, 5], [5, 0]]


def test_every_word_has_its_score(agent: Agent, world: World) -> None:
    words = ["SYS", "NODE", "PHB", "PXB", "PIX", "NV1", "NV18"]
    rows = [["SYS"] * 8 for _ in range(8)]
    for index in range(8):
        rows[index][index] = "X"
    for index, word in enumerate(words, start=1):
        rows[0][index] = rows[index][0] = word
    agent.register(inventory=linked(*map(" ".join, rows)))
    assert now_of(world.nodes[0]).links[0] == [0, 1, 2, 3, 4, 5, 10, 180]


HOSTILE = {
    "too few rows": (("X NV4",), 2, "inventory.topology"),
    "too many rows": (("X NV4", "NV4 X", "SYS SYS"), 2, "inventory.topology"),
    "a short row": (("X NV4", "NV4"), 2, "inventory.topology[1]"),
    "a long row": (("X NV4 NV4", "NV4 X"), 2, "inventory.topology[0]"),
    "no X on the diagonal": (("X NV4", "NV4 NV4"), 2, "inventory.topology[1][1]"),
    "an X elsewhere": (("X X", "X X"), 2, "inventory.topology[0][1]"),
    "a word that is none": (("X <b>", "SYS X"), 2, "inventory.topology[0][1]"),
    "no NVLink": (("X SYS", "NV0 X"), 2, "inventory.topology[1][0]"),
    "more NVLinks than there can be": (("X NV65", "SYS X"), 2, "inventory.topology[0][1]"),
    "fewer than none": (("X NV-4", "SYS X"), 2, "inventory.topology[0][1]"),
    "links without GPUs": (("X",), 0, "inventory.topology"),
}


@pytest.mark.parametrize(("rows", "gpus", "field"), HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_matrix_of_the_gpus_is_refused_by_field(
    rows: tuple[str, ...], gpus: int, field: str, agent: Agent, world: World
) -> None:
    agent.register(inventory=linked(*CROSSED))
    before = now_of(world.nodes[0])
    topology = tuple(tuple(row.split()) for row in rows)
    answer = agent.register(inventory=inventory(*(a100(index) for index in range(gpus)), topology=topology))
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(f"{field}: ")
    after = now_of(world.nodes[0])
    assert (after.links, after.version) == (before.links, before.version)
    assert Gpu.objects.filter(node=after, present=True).count() == 4


def test_links_of_gpus_whose_indexes_have_gaps_are_refused(agent: Agent) -> None:
    gpus = (a100(0), a100(7))
    answer = agent.register(inventory=inventory(*gpus, topology=(("X", "NV4"), ("NV4", "X"))))
    assert (answer.status_code, answer.json()["detail"].partition(":")[0]) == (422, "inventory.topology")
    assert agent.register(inventory=inventory(*gpus)).status_code == 200


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"index": -1}, "inventory.gpus[0].index"),
        ({"index": 128}, "inventory.gpus[0].index"),
        ({"memory_mib": -1}, "inventory.gpus[0].memory_mib"),
        ({"memory_mib": 1 << 40}, "inventory.gpus[0].memory_mib"),
        ({"numa_node": -1}, "inventory.gpus[0].numa_node"),
        ({"uuid": ""}, "inventory.gpus[0].uuid"),
        ({"uuid": "G" * 81}, "inventory.gpus[0].uuid"),
    ],
)
def test_a_gpu_that_cannot_be_is_refused_by_field(changes: dict[str, Any], field: str, agent: Agent) -> None:
    answer = agent.register(inventory=inventory(replace(a100(0), **changes)))
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(f"{field}: ")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"gpus": tuple(a100(index) for index in range(129))}, "inventory.gpus"),
        ({"gpus": (a100(0, "GPU-same"), a100(1, "GPU-same"))}, "inventory.gpus"),
        ({"cpus": -1}, "inventory.cpus"),
        ({"cpus": 1 << 40}, "inventory.cpus"),
        ({"memory_mib": -1}, "inventory.memory_mib"),
        ({"address": "a" * 256}, "inventory.address"),
    ],
)
def test_a_machine_that_cannot_be_is_refused_by_field(fields: dict[str, Any], field: str, agent: Agent) -> None:
    answer = agent.register(inventory=inventory(**fields))
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(f"{field}: ")


def test_a_gpu_keeps_the_numa_node_that_it_is_on(agent: Agent) -> None:
    agent.register(inventory=inventory(replace(a100(0), numa_node=1), a100(1)))
    assert list(Gpu.objects.filter(present=True).order_by("index").values_list("numa_node", flat=True)) == [1, None]


def test_a_stored_cycle_keeps_the_links_it_was_decided_by(agent: Agent, world: World) -> None:
    agent.register(inventory=linked(*CROSSED))
    Pool.objects.update(placement="topology")
    attempt = place(world, gpus=2)
    stored = Cycle.objects.order_by("pk").last()
    assert stored is not None
    agent.register(inventory=linked("X NV4 SYS SYS", "NV4 X SYS SYS", "SYS SYS X NV4", "SYS SYS NV4 X"))
    held = sorted(ranks(attempt)[0].claims.values_list("gpu_id", flat=True))
    for plan in replay(stored):
        assert [sorted(share.gpu_ids) for one in plan.places for share in one.allocations] == [held]
