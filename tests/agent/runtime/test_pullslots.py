"""Number and order of the pulls that one registry's host serves at once."""

from __future__ import annotations

from nodeagent.launch.pullslots import PullSlots


def running(slots: PullSlots, host: str, *allocation_ids: int) -> list[int]:
    return [number for number in allocation_ids if slots.has(host, number)]


def test_pulls_of_one_host_are_served_in_the_order_in_which_they_asked() -> None:
    slots = PullSlots(at_once=2)
    for number in (1, 2, 3, 4):
        slots.ask("docker.io", number)
    assert running(slots, "docker.io", 4, 3, 2, 1) == [2, 1]
    slots.end("docker.io", 1)
    assert running(slots, "docker.io", 2, 3, 4) == [2, 3]


def test_what_leaves_the_queue_lets_those_behind_it_move_up() -> None:
    slots = PullSlots(at_once=1)
    for number in (1, 2, 3):
        slots.ask("docker.io", number)
    slots.end("docker.io", 2)
    slots.end("docker.io", 1)
    assert slots.has("docker.io", 3)


def test_another_host_has_slots_of_its_own() -> None:
    slots = PullSlots(at_once=1)
    slots.ask("silent.example", 1)
    slots.ask("docker.io", 2)
    assert slots.has("docker.io", 2)
