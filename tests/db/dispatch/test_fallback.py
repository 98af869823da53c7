"""A pool whose policy fails goes on with simpler settings, tells its operators, and touches nothing that runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from io import StringIO
from typing import Any, ClassVar

import pytest
from django.core.management import CommandError, call_command

from muster.dispatch.config.settings import config_of, fallback_of
from muster.dispatch.cycles import InvalidPlan
from muster.dispatch.explain.forecast import dry_run
from muster.dispatch.models import Cycle
from muster.events.models import Event, Outbox
from muster.fleet.models import Pool
from scheduler.authoring import OrderedPolicy
from scheduler.engine.context import CycleContext
from scheduler.engine.cycle import CycleConfig
from scheduler.engine.policy import POLICIES
from scheduler.model import AllocationView, Job, Running, View
from scheduler.placement import PLACEMENTS
from scheduler.placement.consolidate import Consolidate
from tests.db.stories import World, cycle, make_world, now_of, start, states, submit

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_committed", "sound")]

SCHEMA: Mapping[str, Any] = {"type": "object", "properties": {"deep": {"type": "boolean", "default": False}}}


@dataclass(frozen=True, slots=True)
class Raising(OrderedPolicy):
    """Fails whenever it is asked."""

    params_schema: ClassVar[Mapping[str, Any]] = SCHEMA
    deep: bool = False

    def waiting_key(self, job: Job) -> tuple[int]:
        return (job.id,)

    def serve(self, context: CycleContext) -> None:
        raise ZeroDivisionError("no share is left")


@dataclass(frozen=True, slots=True)
class Unlawful(Raising):
    """Gives each job GPUs that others hold, and stops no job."""

    def serve(self, context: CycleContext) -> None:
        held = next(iter(context.view.running)).allocations[0]
        for job in self.order(context.view):
            share = AllocationView(
                held.node_id,
                0,
                held.gpu_ids[: job.request.first.gpus],
                job.request.first.cpus,
                job.request.first.memory_mib,
            )
            context.state.free.give([share])
            context.take(job, (share,))

    def order(self, view: View) -> Iterable[Job]:
        return view.waiting

    def running_key(self, run: Running, now: float) -> tuple[int]:
        return (run.job.id,)


@dataclass(frozen=True, slots=True)
class RaisingPlacement(Consolidate):
    """Finds no place and says so in the wrong way."""

    def place(self, *_: object) -> None:
        raise LookupError("no map of the racks")


@pytest.fixture(autouse=True)
def _broken_plug_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[str, Any] = dict(POLICIES._classes)
    monkeypatch.setitem(POLICIES.__dict__, "_classes", known | {"raising": Raising, "unlawful": Unlawful})
    placements: dict[str, Any] = dict(PLACEMENTS._classes)
    monkeypatch.setitem(PLACEMENTS.__dict__, "_classes", placements | {"raising": RaisingPlacement})


@pytest.fixture
def world(settings: Any) -> World:
    settings.OPERATORS_MAIL = ["ops@example.org"]
    return make_world(gpus=2)


def set_policy(world: World, policy: str, **fields: Any) -> None:
    Pool.objects.filter(pk=world.pool.pk).update(policy=policy, **fields)


def failed_cycle() -> Cycle:
    return Cycle.objects.exclude(error="").get()


@pytest.mark.parametrize(
    ("policy", "params", "why"),
    [
        ("raising", {}, "ZeroDivisionError: no share is left"),
        ("unlawful", {}, "the plan violates an invariant: GPU 0 of"),
        ("gone", {}, "there is no policy 'gone'"),
        ("fifo", {"skip_blockd": True}, "unknown parameter 'skip_blockd'"),
    ],
)
def test_a_policy_that_fails_is_recorded_and_the_pool_goes_on_by_fifo(
    world: World, policy: str, params: dict[str, Any], why: str
) -> None:
    running = start(world)
    set_policy(world, policy, policy_params=params)
    job = submit(world)
    result = cycle(world)

    row = failed_cycle()
    assert why in row.error
    assert (row.placed, row.held, row.waiting) == (0, 0, 1)
    assert bool(row.violations) is (policy == "unlawful")
    assert result.cycle_id is not None
    assert result.cycle_id > row.pk
    assert Cycle.objects.get(pk=result.cycle_id).placed == 1
    assert states(job)[:2] == ("active", "placed")
    assert states(running.job)[:2] == ("active", "running")

    (event,) = Event.objects.filter(kind="pool.fell_back")
    assert (event.data["pool"], event.data["policy"], event.data["to"]) == (world.pool.name, policy, "fifo")
    assert why in event.data["why"]
    (mail,) = Outbox.objects.filter(topic="mail")
    assert world.pool.name in mail.payload["subject"]
    assert why in mail.payload["body"]


def test_it_stays_with_fifo_until_its_settings_are_edited(world: World) -> None:
    set_policy(world, "raising")
    for _ in range(3):
        submit(world)
        cycle(world)
    pool = now_of(world.pool)
    assert Cycle.objects.exclude(error="").count() == 1
    assert config_of(pool) == CycleConfig()
    fallback = fallback_of(pool)
    assert fallback is not None
    assert fallback["cycle"] == failed_cycle().pk
    assert "no share is left" in fallback["why"]

    set_policy(world, "raising", policy_params={"deep": True})
    assert fallback_of(now_of(world.pool)) is None
    submit(world, gpus=2)
    cycle(world)
    assert Cycle.objects.exclude(error="").count() == 2
    set_policy(world, "fifo", policy_params={"skip_blocked": False})
    assert fallback_of(now_of(world.pool)) is None
    cycle(world)
    assert Cycle.objects.exclude(error="").count() == 2


def test_it_keeps_its_placement_and_admission_unless_they_fail_too(world: World) -> None:
    set_policy(world, "raising", placement="spread")
    submit(world)
    cycle(world)
    assert config_of(now_of(world.pool)) == CycleConfig(placement="spread")

    set_policy(world, "raising", placement="raising")
    job = submit(world)
    cycle(world)
    assert config_of(now_of(world.pool)) == CycleConfig()
    assert states(job)[:2] == ("active", "placed")
    assert [row.error.split(":")[0] for row in Cycle.objects.exclude(error="").order_by("pk")] == [
        "ZeroDivisionError",
        "ZeroDivisionError",
        "LookupError",
    ]


def test_nothing_plainer_than_the_defaults_is_left(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    running = start(world)
    submit(world)
    monkeypatch.setitem(POLICIES.__dict__, "_classes", {"fifo": Unlawful})
    with pytest.raises(InvalidPlan, match="violates an invariant"):
        cycle(world)
    assert states(running.job)[:2] == ("active", "running")


def test_a_dry_run_answers_as_the_pool_would_decide_then(world: World) -> None:
    set_policy(world, "raising", placement="raising")
    answer = dry_run(user=world.user, data={"command": "true", "gpus": 1, "vc": world.vc.name})
    assert (answer.starts_now, answer.hold) == (True, None)
    assert not Cycle.objects.exists()


def test_a_failed_cycle_cannot_be_replayed_and_says_why(world: World) -> None:
    set_policy(world, "raising")
    submit(world)
    cycle(world)
    with pytest.raises(CommandError, match="failed"):
        call_command("replay", str(failed_cycle().pk), stdout=StringIO())
