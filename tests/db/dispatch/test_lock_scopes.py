"""The rows under which an admission's plans are applied: a limit across virtual clusters needs the pool's row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from django.db import transaction

from muster.dispatch.apply.apply import Applied, apply_units
from muster.dispatch.apply.plan_units import Unit
from muster.dispatch.config.settings import config_of
from muster.dispatch.cycles import replay, run_cycle
from muster.dispatch.models import Cycle
from muster.fleet.models import Pool
from scheduler.admission import ADMISSIONS, ANY_GPUS, Admission, Grant, Ledger, LockScope
from scheduler.model import Job, Snapshot, View
from scheduler.model.invariants import Violation
from scheduler.model.lifecycle import HoldReason
from scheduler.model.plan import Denial, Place, Plan
from scheduler.model.request import Config
from tests.db.stories import Other, World, make_world, planned_places, states, submit
from tests.factories import make_vc

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sound")]

CAP = 1


class CappedLedger(Ledger):
    """All virtual clusters together hold at most `CAP` GPUs."""

    def offer(self, job: Job, config: Config) -> Grant | Denial:
        held = sum(gpus for (vc_id, _), gpus in self.usage.items() if vc_id > 0)
        if held + config.gpus <= CAP:
            return ANY_GPUS
        return Denial(HoldReason.QUOTA, f"the pool holds {held} of {CAP} GPUs", {}, ())


class Capped(Admission):
    def ledger(self, view: View) -> Ledger:
        return CappedLedger(view)

    def violations(self, view: View, plan: Plan) -> Iterable[Violation]:
        given = sum(view.held_by_vc.values()) + sum(
            len(one.gpu_ids) for place in plan.places for one in place.allocations
        )
        if plan.places and given > CAP:
            yield Violation("capped", plan.places[-1].job_id, f"the pool would hold {given} of {CAP} GPUs")


class Blind(Capped):
    """The same limit under rows that do not show it."""

    lock_scope = LockScope.VIRTUAL_CLUSTERS


@pytest.fixture(autouse=True)
def _capped(monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[str, Any] = dict(ADMISSIONS._classes)
    monkeypatch.setitem(ADMISSIONS.__dict__, "_classes", known | {"capped": Capped, "blind": Blind})


@pytest.fixture
def world() -> World:
    return make_world(nodes=2, gpus=1)


def two_places(world: World) -> tuple[list[Place], Snapshot]:
    """A place for a job of each of two virtual clusters, planned without the limit."""
    other = make_vc(world.tenant, world.pool)
    submit(world)
    submit(world, vc=other.name)
    places, seen = planned_places(world)
    assert len(places) == 2
    return places, seen


def carry_out(world: World, place: Place, seen: Snapshot, admission: str) -> Applied:
    config = replace(config_of(world.pool), admission=admission, admission_params={})
    return apply_units(world.pool, [Unit((place,))], config, seen)


def test_the_second_plan_waits_for_the_first_and_sees_what_it_took(world: World) -> None:
    (first, second), seen = two_places(world)
    with transaction.atomic():
        assert carry_out(world, first, seen, "capped").started == [first.job_id]
        other = Other(lambda: carry_out(world, second, seen, "capped")).until_it_waits()
    assert [one.reason for one in other.result().refusals] == ["the pool would hold 2 of 1 GPUs"]


def test_rows_that_do_not_show_the_limit_let_both_pass(world: World) -> None:
    (first, second), seen = two_places(world)
    assert carry_out(world, first, seen, "blind").started == [first.job_id]
    assert carry_out(world, second, seen, "blind").started == [second.job_id]  # hence the default


def test_a_cycle_decides_and_replays_by_such_an_admission(world: World) -> None:
    Pool.objects.filter(pk=world.pool.pk).update(admission="capped")
    jobs = [submit(world), submit(world, vc=make_vc(world.tenant, world.pool).name)]
    result = run_cycle(world.pool.pk, trigger="command")
    assert [states(job)[0] for job in jobs] == ["active", "queued"]
    then, now = replay(Cycle.objects.get(pk=result.cycle_id))
    assert then == now
