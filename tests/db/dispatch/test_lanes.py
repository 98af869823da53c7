"""A lane solves outside the pool's lock in a process of its own; the short cycle carries out what it stored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.console.pools import LaneForm
from muster.dispatch import tasks
from muster.dispatch.config.settings import fallback_of
from muster.dispatch.cycles import replay
from muster.dispatch.explain.forecast import dry_run
from muster.dispatch.lanes.lanes import PoolLane
from muster.dispatch.models import Cycle, Lane, PolicyState, Target
from muster.events.models import Event, Outbox
from muster.fleet.models import Node, Pool
from muster.fleet.services import cordon_node
from muster.jobs.services import cancel_job
from scheduler.engine.policy import POLICIES
from tests.db.stories import World, cycle, make_world, states, submit
from tests.plugins.installed import install

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_committed", "sound")]

# Each is a policy of its own, for the process of the solve finds it by its entry point.
MODULE = '''
import os
import time

from scheduler.authoring import CyclePolicy


class Last(CyclePolicy):
    """Starts the youngest jobs first, on one GPU each."""

    def decide(self, cycle):
        for job in reversed(cycle.waiting()):
            if not cycle.place(job):
                cycle.pend(job, "a younger job is ahead")
        cycle.remember({"cycles": (cycle.state or {}).get("cycles", 0) + 1})


class Sleeps(CyclePolicy):
    """Never ends."""

    def decide(self, cycle):
        while True:
            time.sleep(0.01)


class Raises(CyclePolicy):
    """Fails."""

    def decide(self, cycle):
        raise ZeroDivisionError("no share is left")


class Dies(CyclePolicy):
    """Ends its process."""

    def decide(self, cycle):
        os._exit(3)


class Again(CyclePolicy):
    """Wants to decide again soon."""

    def decide(self, cycle):
        cycle.wake_at(cycle.now + 0.002)
'''
NAMES = ["last", "sleeps", "raises", "dies", "again"]


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    points = "\n".join(f"{name} = lane_policies:{name.capitalize()}" for name in NAMES)
    monkeypatch.syspath_prepend(str(install(tmp_path, "lane-policies", MODULE, {"muster.policies": points})))
    monkeypatch.delitem(POLICIES.__dict__, "_classes", raising=False)
    assert set(NAMES) <= set(POLICIES.names)
    yield
    POLICIES.__dict__.pop("_classes", None)


@pytest.fixture
def world(settings: Any) -> World:
    settings.OPERATORS_MAIL = ["ops@example.org"]
    return make_world(gpus=1, policy="last")


@pytest.fixture
def lane(world: World) -> Iterator[PoolLane]:
    """The lane of the pool, whose targets are carried out."""
    Lane.objects.create(pool=world.pool, mode=Lane.Mode.ON, limit_s=30)
    found = PoolLane(world.pool.pk)
    yield found
    found.stop()


def set_policy(world: World, policy: str, *, limit_s: int = 30) -> None:
    Pool.objects.filter(pk=world.pool.pk).update(policy=policy)
    Lane.objects.filter(pool=world.pool).update(limit_s=limit_s)


def solve(lane: PoolLane) -> Target:
    """The target of the next turn of the lane."""
    before = Target.objects.count()
    assert lane.turn()
    assert Target.objects.count() == before + 1
    return Target.objects.latest("pk")


def test_the_next_cycle_carries_the_target_out_and_its_replay_is_the_same(world: World, lane: PoolLane) -> None:
    jobs = [submit(world) for _ in range(2)]
    target = solve(lane)
    assert (target.state, target.places) == ("stored", 1)
    assert states(jobs[1])[0] == "queued"  # a solve changes nothing
    result = cycle(world)
    assert [states(job)[0] for job in jobs] == ["queued", "active"]  # fifo alone would have started the first
    target.refresh_from_db()
    assert (target.state, target.dropped) == ("applied", {})
    record = Cycle.objects.get(pk=result.cycle_id)
    assert record.target == target
    assert record.config is not None
    assert record.config["policy"] == "fifo"
    then, now = replay(record)
    assert then == now
    assert PolicyState.objects.get(pool=world.pool).data == {"cycles": 1}


def test_a_waiting_job_reads_the_reason_of_the_solve(world: World, lane: PoolLane) -> None:
    job, _ = submit(world), submit(world)
    solve(lane)
    cycle(world)
    job.refresh_from_db()
    assert job.hold is not None
    assert (job.hold["reason"], job.hold["detail"]) == ("policy", "a younger job is ahead")


def test_a_job_that_came_after_the_solve_fills_what_is_left(world: World, lane: PoolLane) -> None:
    solve(lane)
    job = submit(world)
    cycle(world)
    assert states(job)[0] == "active"


def test_parts_of_a_target_that_are_not_possible_any_more_are_dropped_by_name(world: World, lane: PoolLane) -> None:
    Node.objects.filter(pool=world.pool).update(name="gpu01")
    job = submit(world)
    target = solve(lane)
    cordon_node(node=Node.objects.get(pool=world.pool), reason="fan", actor="op")
    cycle(world)
    target.refresh_from_db()
    assert (target.state, target.dropped) == ("applied", {str(job.pk): "gpu01 takes no jobs like it now"})
    assert states(job)[0] == "queued"


def test_a_target_for_a_job_that_is_gone_leaves_its_gpus_to_others(world: World, lane: PoolLane) -> None:
    first, second = submit(world), submit(world)
    solve(lane)
    cancel_job(user=world.user, job=second)
    cycle(world)
    assert states(first)[0] == "active"


def test_a_pool_that_did_not_change_is_not_solved_again(world: World, lane: PoolLane) -> None:
    submit(world)
    solve(lane)
    lane.turn()
    assert Target.objects.count() == 1
    cycle(world)  # the job starts
    solve(lane)
    lane.turn()
    assert Target.objects.count() == 2


def test_a_policy_that_wants_to_decide_again_is_solved_again(world: World, lane: PoolLane) -> None:
    set_policy(world, "again")
    solve(lane)
    solve(lane)  # two milliseconds are over by now


def test_a_newer_target_supersedes_an_older_one(world: World, lane: PoolLane) -> None:
    older = solve(lane)
    submit(world)
    solve(lane)
    older.refresh_from_db()
    assert older.state == "superseded"


def test_in_shadow_a_target_is_compared_and_changes_nothing(world: World, lane: PoolLane) -> None:
    Lane.objects.update(mode=Lane.Mode.SHADOW)
    Pool.objects.update(policy="fifo")
    jobs = [submit(world) for _ in range(2)]
    cycle(world)
    Pool.objects.update(policy="last")
    target = solve(lane)
    assert target.places == 0  # its only GPU is taken
    Pool.objects.update(policy="fifo")
    cycle(world)
    target.refresh_from_db()
    assert (target.state, target.agreement) == ("compared", {"same": 0, "elsewhere": 0, "waiting": 0, "gone": 0})
    assert [states(job)[0] for job in jobs] == ["active", "queued"]
    assert not Cycle.objects.filter(target__isnull=False).exists()


def test_shadow_tells_that_the_cycles_placed_a_job_where_the_lane_would_have(world: World, lane: PoolLane) -> None:
    Lane.objects.update(mode=Lane.Mode.SHADOW)
    job = submit(world)
    target = solve(lane)
    cycle(world)  # it places the job; the next one sees it there
    Target.objects.update(state="stored")
    submit(world)
    cycle(world)
    target.refresh_from_db()
    assert states(job)[0] == "active"
    assert target.agreement == {"same": 1, "elsewhere": 0, "waiting": 0, "gone": 0}


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        ("sleeps", "the solve took longer than 1 s"),
        ("raises", "ZeroDivisionError: no share is left"),
        ("dies", "the process of the solve has died"),
        ("gone", "ConfigError: there is no policy 'gone'"),
    ],
)
def test_a_solve_that_fails_is_discarded_and_the_pool_falls_back(
    world: World, lane: PoolLane, policy: str, why: str
) -> None:
    set_policy(world, policy, limit_s=1 if policy == "sleeps" else 30)
    job = submit(world)
    target = solve(lane)
    assert (target.state, target.plan) == ("discarded", None)
    assert why in target.reason
    if policy in ("sleeps", "dies"):
        assert lane._solver.pid is None
    world.pool.refresh_from_db()
    fallback = fallback_of(world.pool)
    assert fallback is not None
    assert why in fallback["why"]
    assert Event.objects.filter(kind="pool.fell_back").count() == 1
    assert "A solve of pool" in Outbox.objects.get(topic="mail").payload["body"]
    assert lane.turn()  # it waits until an operator has edited the settings
    assert Target.objects.count() == 1
    cycle(world)
    assert states(job)[0] == "active"


def test_an_invalid_target_is_discarded_and_the_cycle_goes_on_without_it(
    world: World, lane: PoolLane, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submit(world)
    target = solve(lane)
    monkeypatch.setattr("muster.dispatch.cycles.decide_by_target", lambda *_: 1 / 0)
    cycle(world)
    target.refresh_from_db()
    assert (target.state, target.reason) == ("discarded", "ZeroDivisionError: division by zero")
    assert states(job)[0] == "active"
    assert fallback_of(Pool.objects.get(pk=world.pool.pk)) is None


def test_a_dry_run_reads_the_target_and_solves_nothing(world: World, lane: PoolLane) -> None:
    submit(world)
    solve(lane)
    set_policy(world, "sleeps")
    answer = dry_run(user=world.user, data={"command": "true", "vc": world.vc.name, "gpus": 1})
    assert answer.feasible
    assert not answer.starts_now  # the target has the only GPU for the job before it


def test_a_lane_ends_with_its_settings(world: World, lane: PoolLane) -> None:
    Lane.objects.update(mode=Lane.Mode.OFF)
    assert not lane.turn()


def test_the_admin_refuses_a_fill_policy_that_does_not_exist(world: World) -> None:
    data = {"pool": world.pool.pk, "mode": "on", "limit_s": 30, "fill_policy": "fiifo", "fill_params": "{}"}
    form = LaneForm(data)
    assert not form.is_valid()
    assert "there is no policy 'fiifo'" in form.errors["fill_policy"][0]
    assert LaneForm(data | {"fill_policy": "fifo"}).is_valid()
    wrong = LaneForm(data | {"fill_policy": "fifo", "fill_params": '{"speed": 1}', "limit_s": 0})
    assert set(wrong.errors) == {"limit_s", "fill_params"}


def test_snapshots_of_targets_are_bounded_and_their_cycles_say_so_in_a_replay(
    world: World, lane: PoolLane, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(world)
    target = solve(lane)
    record = Cycle.objects.get(pk=cycle(world).cycle_id)
    monkeypatch.setattr(tasks, "SNAPSHOTS_KEPT_BYTES", 0)
    Cycle.objects.update(snapshot=b"", plan=b"x")  # empty: only the target is over the bound
    tasks.forget_old_cycles()
    target.refresh_from_db()
    assert (target.snapshot, target.plan, target.state) == (None, None, "applied")
    record = Cycle.objects.get(pk=record.pk)
    with pytest.raises(ValueError, match=r"the target of cycle \d+ is not stored any more"):
        replay(record)
