"""Announced effects of a switch of a pool's settings on its jobs and virtual clusters."""

from __future__ import annotations

from typing import Any

import pytest

from muster.cells.models import CellShare
from muster.dispatch.config.knowledge import too_short_turn
from muster.dispatch.config.plugins import SETTINGS
from muster.dispatch.config.switches import changes, effects
from muster.dispatch.models import PlannedCluster, Planner
from muster.fleet.models import Pool
from muster.tenants.models import Organisation, VirtualCluster
from scheduler.model.lifecycle import JobClass, JobState
from scheduler.presets import GUARANTEED_CELLS
from tests.factories import make_job, make_pool, make_tenant, make_vc

pytestmark = pytest.mark.django_db


@pytest.fixture
def pool() -> Pool:
    return make_pool("main")


@pytest.fixture
def vc(pool: Pool) -> VirtualCluster:
    return make_vc(make_tenant("vision"), pool, "vision")


def settings_of(pool: Pool, **other: Any) -> dict[str, Any]:
    return {name: getattr(pool, name) for name in SETTINGS} | other


def effects_of(pool: Pool, **other: Any) -> str:
    return " ".join(effects(pool, settings_of(pool), settings_of(pool, **other)))


def test_each_setting_is_told_before_and_after(pool: Pool) -> None:
    pool.policy, pool.policy_params = "tiresias", {"promote_knob": 2}
    after = settings_of(pool, policy_params={"min_run_s": 60}, placement="relaxing", placement_params={"node_s": 10})
    assert [(one.name, one.before, one.after) for one in changes(settings_of(pool), after)] == [
        ("policy, min_run_s", "0s (default)", "1m"),
        ("policy, promote_knob", "2", "0 (default)"),
        ("placement", "consolidate", "relaxing (node_s 10s)"),
    ]
    assert changes(settings_of(pool), settings_of(pool)) == effects(pool, settings_of(pool), settings_of(pool)) == []


def test_cells_without_promises_take_all_guarantees_away(pool: Pool, vc: VirtualCluster) -> None:
    told = " ".join(effects(pool, settings_of(pool), GUARANTEED_CELLS.settings))
    assert "No cells are promised, so all guarantees go and all jobs become opportunistic" in told
    assert "Quotas hold no more" not in told


def test_virtual_clusters_without_cells_are_named_beside_those_that_have_some(pool: Pool, vc: VirtualCluster) -> None:
    CellShare.objects.create(vc=vc, cell="A100x8-NODE", number=1, gpu_type="A100", gpus=8)
    assert "no cells" not in effects_of(pool, admission="hived")
    make_vc(vc.tenant, pool, "speech")
    told = effects_of(pool, admission="hived")
    assert "speech has no cells: their guarantees go" in told
    assert "A running job that fits no cell becomes opportunistic." in told
    pool.admission = "hived"
    assert "Cells bind no more" in effects_of(pool, admission="quota")


def test_quotas_that_go_or_come_are_told(pool: Pool, vc: VirtualCluster) -> None:
    make_vc(vc.tenant, pool, "speech", quotas={})
    assert "No quota holds any more" in effects_of(pool, admission="open")
    pool.admission = "open"
    assert "Quotas hold now, and speech has none." in effects_of(pool, admission="quota")
    pool.admission = "borrow"
    make_job(vc, klass=JobClass.OPPORTUNISTIC)
    assert "Nothing is lent to opportunistic jobs any more: 1 job that is opportunistic counts" in effects_of(
        pool, admission="quota"
    )


def test_the_tree_lends_in_organisations(pool: Pool, vc: VirtualCluster) -> None:
    assert "No tenant here is in an organisation" in effects_of(pool, admission="tree")
    vc.tenant.organisation = Organisation.objects.create(name="lab")
    vc.tenant.save()
    assert "lend what they do not use within their tenant and their organisation" in effects_of(pool, admission="tree")


def test_a_policy_that_stops_jobs_says_how_many_it_could_stop(pool: Pool, vc: VirtualCluster) -> None:
    make_job(vc, state=JobState.ACTIVE, checkpoints=True, expected_s=60)
    make_job(vc, state=JobState.ACTIVE)
    make_job(vc, state=JobState.ACTIVE, preemptible=False, time_limit_s=60)
    make_job(vc)
    told = effects_of(pool, policy="srsf")
    assert "srsf may stop running jobs for others: 2 of 3 with GPUs now" in told
    assert "of which 1 saves no checkpoints and would begin again" in told
    assert "needs expected run times. Of 4 jobs with GPUs" in told
    assert told.endswith("Jobs that run go on for now: 3. Jobs that wait are decided on anew at once: 1.")
    assert "may stop" not in effects_of(pool, policy="sjf")
    for policy in ("gavel", "gandiva", "themis", "fair", "philly"):
        assert f"{policy} may stop running jobs" in effects_of(pool, policy=policy), policy


def test_a_planner_keeps_its_policy(pool: Pool, vc: VirtualCluster) -> None:
    PlannedCluster.objects.create(vc=vc, planner=Planner.objects.create(pool=pool, name="fast"))
    assert "vision has a planner with a policy and a placement of its own" in effects_of(pool, policy="srsf")


@pytest.mark.parametrize(
    ("policy", "params", "named"),
    [
        ("gavel", {"round_s": 20}, "for 20s at a time is never measured"),
        ("gavel", {"round_s": 20, "aware": False}, ""),
        ("gavel", {}, ""),
        ("gandiva", {"slice_s": 30}, "Set slice_s to 90s or more"),
        ("themis", {"lease_s": 60}, "Set lease_s to 90s or more"),
        ("srsf", {"min_run_s": 5}, ""),
        ("gone", {}, ""),
    ],
)
def test_turns_in_which_no_speed_can_be_measured_are_warned_of(policy: str, params: dict[str, Any], named: str) -> None:
    told = too_short_turn(policy, params)
    assert named in told
    assert bool(told) == bool(named)
