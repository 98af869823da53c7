"""The policy of a pool run forward in the background: the task, its rows, and look-ups."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.conf import LazySettings

from muster.fleet.models import Pool
from muster.jobs.services import draft_job
from muster.predictions.forward import runs
from muster.predictions.forward.lookup import forward_of, forwards_of
from muster.predictions.models import PoolForward
from scheduler.predict.waits.forecast import WaitSource
from tests.db.stories import World, let_pass, make_world, start, submit

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_committed")]


@pytest.fixture
def world() -> World:
    return make_world()


@pytest.fixture(autouse=True)
def _own_folder(settings: LazySettings, tmp_path: Path) -> None:
    settings.STATE_FOLDER = tmp_path


@pytest.fixture
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "in_child", lambda function, items, limits: function(iter(items)))


def test_a_pool_with_live_jobs_is_run_and_its_waiting_jobs_and_new_ones_are_looked_up(world: World) -> None:
    start(world, gpus=4, expected="2h", time="4h")
    waits = submit(world, gpus=2, expected="1h", time="2h")
    assert runs.run_due_pools() == 1
    row = PoolForward.objects.get()
    assert (row.error, list(row.jobs)) == ("", [str(waits.pk)])
    found = forward_of(waits)
    assert found is not None
    assert found.source is WaitSource.FORWARD
    assert found.quick < 0.5
    assert 600 < found.p10_s < found.p50_s <= found.p90_s <= 4 * 3600 + 600
    draft = draft_job(user=world.user, data={"command": "true", "gpus": 4, "vc": world.vc.name})
    draft.submitted_at = draft.eligible_at = waits.submitted_at
    later = forward_of(draft)
    assert later is not None
    assert later.p50_s > found.p50_s
    (again, other) = forwards_of(world.pool.pk, [waits, submit(world, gpus=2)])
    assert again == found
    assert other is not None


@pytest.mark.usefixtures("_in_this_process")
def test_a_pool_has_its_next_turn_after_a_minute_or_twenty_times_what_a_run_took(world: World) -> None:
    assert runs.run_due_pools() == 0
    submit(world)
    assert runs.run_due_pools() == 1
    assert runs.run_due_pools() == 0
    row = PoolForward.objects.get()
    let_pass(61, row, "at")
    assert runs.run_due_pools() == 1
    PoolForward.objects.update(took_s=10.0)
    let_pass(190, PoolForward.objects.get(), "at")
    assert runs.run_due_pools() == 0


def test_a_policy_that_fails_leaves_its_reason_and_no_forecast(world: World) -> None:
    waits = submit(world)
    Pool.objects.update(policy="no_such_policy")
    row = runs.run_pool(Pool.objects.get())
    assert "no_such_policy" in row.error
    assert PoolForward.objects.get().data is None
    assert forward_of(waits) is None


@pytest.mark.usefixtures("_in_this_process")
def test_an_old_run_or_one_of_another_version_gives_no_forecast(world: World) -> None:
    waits = submit(world)
    row = runs.run_pool(world.pool)
    assert forward_of(waits) is not None
    PoolForward.objects.update(data=row.data | {"version": 0})
    assert forward_of(waits) is None
    PoolForward.objects.update(data=row.data)
    let_pass(31 * 60, PoolForward.objects.get(), "at")
    assert forward_of(waits) is None
