"""Two planners on one pool: whose jobs each decides on, what it keeps for itself, and what becomes of conflicts."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from django.db import connection, transaction

from muster.common.errors import Invalid
from muster.dispatch import cycles, tasks
from muster.dispatch.config.planners import delete_planner, planner_of, save_planner, scope_of
from muster.dispatch.config.policy_state import keep_pool_state, pool_state_of, set_timer, timers_s
from muster.dispatch.config.settings import config_of
from muster.dispatch.cycles import carry_out, decide_for, replay, run_cycle
from muster.dispatch.explain.feasibility import why_infeasible
from muster.dispatch.explain.forecast import dry_run
from muster.dispatch.explain.selectors import why
from muster.dispatch.lanes.lanes import PoolLane
from muster.dispatch.lanes.solver import Solver
from muster.dispatch.models import Cycle, Lane, Planner, PlannerState, PolicyState, Target
from muster.events.models import AuditEntry, Event
from muster.fleet.models import Pool
from muster.jobs.models import Job, Reservation
from muster.tenants.models import VirtualCluster
from scheduler.engine.cycle import CycleConfig, decide
from scheduler.model import PoolState, Snapshot
from scheduler.model.plan import Note, Plan
from tests.db.stories import WAIT_S, Other, World, claim, live_attempt, make_world, now_of, ranks, run, states, submit
from tests.factories import make_pool, make_vc

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sound")]


@dataclass(frozen=True)
class Planned:
    """A world in which the planner `second` has a virtual cluster of its own."""

    world: World
    second: Planner
    vc: VirtualCluster

    def submit(self, **spec: Any) -> Job:
        return submit(self.world, vc=self.vc.name, **spec)

    def cycle(self) -> cycles.CycleResult:
        return run_cycle(self.world.pool.pk, trigger="command", planner_id=self.second.pk)


def make_planned(*, gpus: int = 2, nodes: int = 1, settings: Mapping[str, Any] | None = None, **pool: Any) -> Planned:
    world = make_world(gpus=gpus, nodes=nodes, **pool)
    vc = make_vc(world.tenant, world.pool, quotas={"A100": 1000})
    second = Planner(pool=world.pool, name="second", **settings or {})
    return Planned(world, save_planner(planner=second, virtual_clusters=[vc], actor="op"), vc)


@pytest.fixture
def planned() -> Planned:
    return make_planned()


class TestWhoDecides:
    def test_each_planner_places_the_jobs_of_its_own_virtual_clusters(self, planned: Planned) -> None:
        first, second = submit(planned.world), planned.submit()
        result = run_cycle(planned.world.pool.pk, trigger="command")
        assert result.applied.started == [first.pk]
        assert now_of(second).hold is None
        assert planned.cycle().applied.started == [second.pk]

    def test_each_holds_its_own_jobs_and_keeps_its_own_records(self, planned: Planned) -> None:
        first, second = submit(planned.world, gpus=3), planned.submit(gpus=3)
        planned.cycle()
        assert (now_of(first).hold_reason, now_of(second).hold_reason) == ("", "infeasible")
        run_cycle(planned.world.pool.pk, trigger="command")
        assert now_of(first).hold_reason == "infeasible"
        for _ in range(2):
            planned.cycle()
            run_cycle(planned.world.pool.pk, trigger="command")
        assert sorted(Cycle.objects.values_list("planner", "waiting", "repeats")) == [
            ("", 1, 0),
            ("", 1, 1),
            ("second", 1, 0),
            ("second", 1, 1),
        ]
        assert why(now_of(second))["cycle"] == Cycle.objects.filter(planner="second").latest("pk").pk
        assert why(now_of(first))["cycle"] == Cycle.objects.filter(planner="").latest("pk").pk

    def test_a_planner_without_waiting_jobs_does_not_decide(self, planned: Planned) -> None:
        submit(planned.world)
        set_timer(planned.world.pool, planned.second, None)
        assert planned.cycle().cycle_id is None

    def test_a_cycle_of_a_planner_replays(self, planned: Planned) -> None:
        submit(planned.world)
        run_cycle(planned.world.pool.pk, trigger="command")
        planned.submit()
        then, again = replay(Cycle.objects.get(pk=planned.cycle().cycle_id))
        assert then == again
        assert then.places

    def test_dry_run_and_submission_ask_the_planner_of_the_virtual_cluster(self) -> None:
        planned = make_planned(settings={"policy": "fifo", "placement": "dedicated"}, nodes=2)
        submit(planned.world)
        run_cycle(planned.world.pool.pk, trigger="command")
        planned.submit(gpus=9)
        assert config_of(planned.world.pool, planned.second).placement == "dedicated"
        spec = {"command": "true", "gpus": 1}
        blocked = dry_run(user=planned.world.user, data={**spec, "vc": planned.vc.name})
        free = dry_run(user=planned.world.user, data={**spec, "vc": planned.world.vc.name})
        assert (blocked.position, free.starts_now) == (2 if blocked.hold else None, True)
        assert why_infeasible(planned.submit(gpus=9), each_choice=False) is not None

    def test_a_lane_solves_for_the_default_planner_alone(
        self, planned: Planned, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first, second = submit(planned.world), planned.submit()
        lane = Lane.objects.create(pool=planned.world.pool, mode=Lane.Mode.ON)
        snapshots: list[Snapshot] = []

        def solve(_: Solver, snapshot: Snapshot, config: CycleConfig, *, limit_s: float) -> Plan:
            snapshots.append(snapshot)
            return decide(snapshot, config)

        monkeypatch.setattr(Solver, "solve", solve)
        PoolLane(planned.world.pool.pk)._solve(lane)
        assert [job.id for job in snapshots[0].waiting] == [first.pk]
        assert planned.cycle().applied.started == [second.pk]
        assert Target.objects.get().state == Target.State.STORED
        run_cycle(planned.world.pool.pk, trigger="command")
        assert Target.objects.get().state == Target.State.APPLIED
        assert states(first)[:2] == ("active", "placed")

    def test_another_planner_s_reserved_gpus_are_taken(self) -> None:
        planned = make_planned(policy="srtf", gpus=1)
        victim = submit(planned.world)
        Job.objects.filter(pk=victim.pk).update(expected_s=1e6)
        run_cycle(planned.world.pool.pk, trigger="command")
        for rank in ranks(live_attempt(victim)):
            claim(rank)
            run(rank)
        short = submit(planned.world)
        Job.objects.filter(pk=short.pk).update(expected_s=1.0)
        assert run_cycle(planned.world.pool.pk, trigger="command").applied.reserved == [short.pk]
        other = planned.submit()
        assert planned.cycle().plan.places == ()
        assert Reservation.objects.get().job_id == short.pk
        assert now_of(other).hold_reason == "no_free_gpus"


class TestForeignJobs:
    def test_a_preemptive_policy_preempts_only_jobs_of_its_planner(self) -> None:
        planned = make_planned(settings={"policy": "srtf"}, gpus=1)
        long = submit(planned.world)
        Job.objects.filter(pk=long.pk).update(expected_s=1e6)
        run_cycle(planned.world.pool.pk, trigger="command")
        short = planned.submit()
        Job.objects.filter(pk=short.pk).update(expected_s=1.0)
        assert planned.cycle().plan.preempts == ()
        assert states(long)[:2] == ("active", "placed")

    def test_a_guaranteed_job_reclaims_gpus_of_another_planner_s_opportunistic_job(self) -> None:
        planned = make_planned(gpus=1, admission="borrow")
        lent = submit(planned.world, **{"class": "opportunistic"})
        run_cycle(planned.world.pool.pk, trigger="command")
        job = planned.submit()
        result = planned.cycle()
        assert result.applied.preempted == [lent.pk]
        assert result.refusals == []
        assert job.pk in {*result.applied.reserved, *result.applied.started}

    def test_notes_on_another_planner_s_jobs_are_not_stored(
        self, planned: Planned, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        mine = submit(planned.world)
        run_cycle(planned.world.pool.pk, trigger="command")
        own = planned.submit()
        decide = cycles.decide
        monkeypatch.setattr(
            cycles,
            "decide",
            lambda *args: replace(decide(*args), notes=(Note(mine.pk, {"x": 1.0}), Note(own.pk, {"x": 2.0}))),
        )
        planned.cycle()
        assert (now_of(mine).memo, now_of(own).memo) == ({}, {"x": 2.0})


class TestWhatEachKeeps:
    def test_each_remembers_the_pool_by_itself(self, planned: Planned) -> None:
        pool = planned.world.pool
        for planner, state in ((None, PoolState("a", 1, {"n": 1})), (planned.second, PoolState("b", 2, {"n": 2}))):
            keep_pool_state(pool, planner, None, Plan((), (), pool_state=state))
        assert (pool_state_of(pool), pool_state_of(pool, planned.second)) == (
            PoolState("a", 1, {"n": 1}),
            PoolState("b", 2, {"n": 2}),
        )
        planned.submit()
        assert decide_for(pool, planned.second, "command").snapshot.pool_state == PoolState("b", 2, {"n": 2})

    def test_each_has_a_timer_of_its_own(self, planned: Planned, monkeypatch: pytest.MonkeyPatch) -> None:
        pool, ran = planned.world.pool, []
        set_timer(pool, None, None)
        set_timer(pool, planned.second, now_of(planned.submit()).submitted_at.timestamp())
        assert list(timers_s()) == [(pool.pk, planned.second.pk)]
        monkeypatch.setattr(tasks, "run_one_cycle", lambda *args, **kwargs: ran.append((*args, kwargs)))
        tasks.run_due_timers()
        assert ran == [(pool.pk, {"trigger": "timer", "planner_id": planned.second.pk})]

    def test_each_falls_back_by_itself(self, planned: Planned) -> None:
        Planner.objects.filter(pk=planned.second.pk).update(policy="no-such-policy")
        job = planned.submit()
        planned.cycle()
        assert states(job)[:2] == ("active", "placed")
        pool, second = now_of(planned.world.pool), now_of(planned.second)
        assert (pool.fallback, second.fallback["config"]["policy"]) == (None, "fifo")
        assert Event.objects.get(kind="pool.fell_back").data["planner"] == "second"
        assert Cycle.objects.exclude(error="").get().planner == "second"

    def test_a_sweep_and_a_hint_reach_every_planner(self, planned: Planned, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[tuple[int, ...]] = []
        monkeypatch.setattr(tasks, "ask_for_cycle", lambda *args: asked.append(args))
        tasks.run_cycle(planned.world.pool.pk)
        assert asked == [(planned.world.pool.pk, planned.second.pk)]
        job = planned.submit()
        tasks.sweep()
        assert states(job)[:2] == ("active", "placed")
        again = planned.submit()
        tasks.run_cycle(*asked[0])
        assert states(again)[:2] == ("active", "placed")

    def test_a_planner_that_fails_stops_no_other(self, planned: Planned, monkeypatch: pytest.MonkeyPatch) -> None:
        job, ran = planned.submit(), run_cycle

        def fail(pool_id: int, *, planner_id: int | None = None, trigger: str) -> Any:
            if planner_id is None:
                raise RuntimeError("no settings")
            return ran(pool_id, planner_id=planner_id, trigger=trigger)

        monkeypatch.setattr(tasks, "run_one_cycle", fail)
        tasks.sweep()
        assert states(job)[:2] == ("active", "placed")


class TestConflicts:
    @staticmethod
    def late(planned: Planned) -> tuple[list[Job], Any]:
        """Two jobs of the second planner, whose plan places them on both GPUs; one GPU is taken since."""
        jobs = [planned.submit(), planned.submit()]
        decided = decide_for(planned.world.pool, planned.second, "command")
        assert len(decided.plan.places) == 2
        submit(planned.world)
        run_cycle(planned.world.pool.pk, trigger="command")
        return jobs, decided

    def test_an_incremental_plan_loses_what_conflicts(self, planned: Planned) -> None:
        jobs, decided = self.late(planned)
        result, again = carry_out(planned.world.pool, planned.second, "command", decided)
        assert (len(result.applied.started), len(result.refusals), again) == (1, 1, True)
        assert "is held by a live attempt" in result.refusals[0].reason
        assert sorted(now_of(job).state for job in jobs) == ["active", "queued"]

    def test_a_plan_that_is_applied_whole_loses_all(self) -> None:
        planned = make_planned(settings={"all_or_nothing": True})
        jobs, decided = self.late(planned)
        result, _ = carry_out(planned.world.pool, planned.second, "command", decided)
        assert (result.applied.started, len(result.refusals)) == ([], 2)
        told = sorted(refusal.reason for refusal in result.refusals)
        assert "is held by a live attempt" in told[0]
        assert told[1].startswith("the plan is applied whole, and job ")
        assert [states(job) for job in jobs] == [("queued", "", [])] * 2
        assert not Event.objects.filter(kind="attempt.placed", job_id__in=[job.pk for job in jobs]).exists()
        planned.cycle()
        assert sorted(now_of(job).state for job in jobs) == ["active", "queued"]

    def test_a_whole_plan_without_conflicts_starts_all(self) -> None:
        planned = make_planned(settings={"all_or_nothing": True})
        jobs = [planned.submit(), planned.submit()]
        assert planned.cycle().applied.started == [job.pk for job in jobs]

    @pytest.mark.django_db(transaction=True)
    def test_two_planners_run_at_the_same_time(self, planned: Planned) -> None:
        job, until, held = planned.submit(), threading.Event(), threading.Event()

        def hold() -> None:
            with cycles._cycle_lock((cycles._POOL_SPACE, planned.world.pool.pk)), connection.cursor():
                held.set()
                assert until.wait(WAIT_S)

        holding = Other(hold)
        assert held.wait(WAIT_S)
        planned.cycle()
        assert states(job)[:2] == ("active", "placed")
        until.set()
        holding.result()

    @pytest.mark.django_db(transaction=True)
    def test_two_planners_that_want_the_last_gpu_take_turns(self) -> None:
        planned = make_planned(gpus=1)
        first, second = submit(planned.world), planned.submit()
        pool = planned.world.pool
        plans = {planner: decide_for(pool, planner, "command") for planner in (None, planned.second)}
        with transaction.atomic():
            assert carry_out(pool, None, "command", plans[None])[0].applied.started == [first.pk]
            other = Other(lambda: carry_out(pool, planned.second, "command", plans[planned.second])).until_it_waits()
        assert "is held by a live attempt" in other.result()[0].refusals[0].reason
        assert now_of(second).hold_reason == "refused"

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize("all_or_nothing", [False, True])
    def test_two_planners_at_once_fill_the_pool(self, all_or_nothing: bool) -> None:
        planned = make_planned(nodes=2, gpus=4, settings={"all_or_nothing": all_or_nothing})
        jobs = [job for _ in range(6) for job in (submit(planned.world), planned.submit())]
        refused = 0
        for _ in range(4):
            both = [Other(planned.cycle), Other(lambda: run_cycle(planned.world.pool.pk, trigger="command"))]
            refused += sum(len(one.result().refusals) for one in both)
        placed = [job for job in jobs if now_of(job).state == "active"]
        assert len(placed) == 8
        assert Cycle.objects.filter(planner="second").exists()
        assert refused == sum(Cycle.objects.values_list("refused", flat=True))

    @pytest.mark.django_db(transaction=True)
    def test_a_planner_that_dies_in_mid_solve_leaves_nothing(
        self, planned: Planned, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job, before, decide = planned.submit(), Event.objects.count() + 1, cycles.decide

        def die(*_: Any) -> Any:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

        monkeypatch.setattr(cycles, "decide", die)
        dying = Other(planned.cycle)
        with pytest.raises(Exception, match=r"terminat|closed"):
            dying.result()
        assert states(job) == ("queued", "", [])
        assert Event.objects.count() <= before
        monkeypatch.setattr(cycles, "decide", decide)
        assert planned.cycle().applied.started == [job.pk]


class TestAdministration:
    def test_a_virtual_cluster_has_one_planner(self, planned: Planned) -> None:
        pool = planned.world.pool
        third = save_planner(
            planner=Planner(pool=pool, name="third"), virtual_clusters=[planned.vc, planned.world.vc], actor="op"
        )
        assert planner_of(pool.pk, planned.vc.pk) == third
        assert not planned.second.clusters.exists()
        scope = scope_of(pool, None)
        assert scope is not None
        assert not scope.has(planned.vc.pk)
        save_planner(planner=third, virtual_clusters=[planned.vc], actor="op")
        assert planner_of(pool.pk, planned.world.vc.pk) is None
        assert AuditEntry.objects.filter(object_type="planner").count() == 3

    def test_what_is_wrong_is_named(self, planned: Planned) -> None:
        pool = planned.world.pool
        elsewhere = make_vc(planned.world.tenant, make_pool("elsewhere"))
        cases: list[tuple[Planner, list[VirtualCluster], str]] = [
            (Planner(pool=pool, name="x"), [elsewhere], f"{elsewhere.name} is in pool elsewhere"),
            (Planner(pool=pool, name="x", policy="fiifo"), [], "there is no policy 'fiifo'"),
            (Planner(pool=pool, name="x", policy_params={"no": 1}), [], "policy_params.no"),
            (Planner(pool=pool, name="second"), [], "has a planner second already"),
            (Planner(pool=pool, name=""), [], "write a name"),
        ]
        for planner, vcs, message in cases:
            with pytest.raises(Invalid, match=message):
                save_planner(planner=planner, virtual_clusters=vcs, actor="op")
        assert Planner.objects.count() == 1

    def test_the_default_planner_takes_over_from_a_deleted_one(self, planned: Planned) -> None:
        job, pool = planned.submit(), planned.world.pool
        decided = decide_for(pool, planned.second, "command")
        pk = planned.second.pk
        keep_pool_state(pool, planned.second, None, Plan((), (), pool_state=PoolState("a", 1, {})))
        delete_planner(planner=planned.second, actor="op")
        assert scope_of(pool, None) is None
        assert not PlannerState.objects.exists()
        assert PolicyState.objects.get().wake_at is not None
        assert run_cycle(pool.pk, trigger="hint", planner_id=pk).cycle_id is None
        assert run_cycle(pool.pk, trigger="command").applied.started == [job.pk]
        assert decided.plan.places  # it would be refused now: its job runs

    def test_a_planner_is_of_its_pool_only(self, planned: Planned) -> None:
        other = Pool.objects.create(name="other")
        assert run_cycle(other.pk, trigger="hint", planner_id=planned.second.pk).cycle_id is None
