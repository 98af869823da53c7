"""The groups of a trace's jobs, as decisions see them."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model import Group
from scheduler.sim import engine
from tests.sim.stories import job, play


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, dict[int, Group], dict[int, int | None]]]:
    """At each decision: the time, the groups, and the group of each live job."""
    decide, found = engine.decide_on, []

    def watched(state: Any, *args: Any, **options: Any) -> Any:
        view = state.view
        jobs = [*view.waiting, *(run.job for run in view.running)]
        found.append((view.now, dict(view.group_by_id), {one.id: one.group_id for one in jobs}))
        assert sorted(view.groups, key=lambda group: group.id) == [group for _, group in sorted(found[-1][1].items())]
        return decide(state, *args, **options)

    monkeypatch.setattr(engine, "decide_on", watched)
    return found


def test_a_group_lives_while_a_member_lives_and_sums_the_service_of_ended_ones(seen: list[Any]) -> None:
    play([
        job(1, gpus=2, runs=30, group="a"),
        job(2, gpus=2, runs=50, group="a"),
        job(3, at=60, runs=10),
        job(4, at=80, runs=10, group="a"),
        job(5, at=85, runs=10, group="b"),
    ])  # fmt: skip
    first = Group(1, 1, 0.0, done_gpu_s=0.0, to_come_gpu_s=0.0)
    assert seen[0] == (0.0, {1: first}, {1: 1, 2: 1})
    assert seen[1] == (30.0, {1: Group(1, 1, 0.0, 60.0, 0.0)}, {2: 1})
    assert seen[2] == (50.0, {}, {})
    assert seen[3] == (60.0, {}, {3: None})
    assert seen[5] == (80.0, {1: Group(1, 1, 0.0, 160.0, 0.0)}, {4: 1})
    assert seen[6][1].keys() == {1, 2}


def test_groups_of_one_name_in_two_virtual_clusters_are_two(seen: list[Any]) -> None:
    play([job(1, vc="nlp", group="a"), job(2, vc="vision", group="a")])
    assert seen[0][1] == {1: Group(1, 1, 0.0, 0.0, 0.0), 2: Group(2, 2, 0.0, 0.0, 0.0)}


def test_jobs_of_no_group_are_in_none(seen: list[Any]) -> None:
    play([job(1), job(2)])
    assert seen[0][1:] == ({}, {1: None, 2: None})
