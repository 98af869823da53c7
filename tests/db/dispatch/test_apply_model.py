"""The applier against its model: one random history, told to Postgres and to the pure functions, stays one story.

After each step the snapshot that is read from Postgres equals the model's own; each cycle's plan equals what the model
decides, and is valid. Under a preemptive policy jobs are stopped for others, and their GPUs are reserved for the job
they were stopped for until it can take them.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from muster.dispatch.apply.plan_units import Unit, batches_of, units_of
from muster.dispatch.config.planners import save_planner, scope_of
from muster.dispatch.config.settings import config_of
from muster.dispatch.cycles import Decided, carry_out, decide_for, stored_snapshot
from muster.dispatch.models import Cycle, Planner
from muster.dispatch.snapshot.snapshot import pool_snapshot
from muster.fleet.services import cordon_node, resume_node
from muster.jobs.models import Attempt, Job
from muster.jobs.services import cancel_job, requeue_job
from scheduler import model
from scheduler.admission import ADMISSIONS, Admission, LockScope
from scheduler.admission.quota import Quota
from scheduler.engine.cycle import compose, decide
from scheduler.model.invariants import awaits_preemption, changed_since, check
from scheduler.model.lifecycle import ATTEMPT_LIVE, AttemptState, JobClass, RuntimeNeed
from scheduler.model.plan import Plan, apply, requeued
from scheduler.model.planners import own_part, seen_by
from scheduler.model.reasons import Reason
from scheduler.model.request import Choice, Request
from tests.db.stories import WAIT_S, World, claim, cycle, end, held, live_attempt, make_world, run, submit, unsound
from tests.factories import make_node, make_vc

pytestmark = pytest.mark.django_db

STEPS = 80


@dataclass
class History:
    """A world told twice: `world` in Postgres, `told` as the model's snapshot."""

    random: random.Random
    world: World
    vcs: list[str]
    told: model.Snapshot
    gangs: tuple[int, ...] = (1, 1, 1, 1, 2, 3)
    cpus: tuple[int, ...] = (1, 4, 25)
    # What the model must know of an attempt beside its snapshot: the ranks that are claimed, and those that have run.
    claimed: dict[int, set[int]] = field(default_factory=dict)
    ran: dict[int, set[int]] = field(default_factory=dict)
    will_wait_again: set[int] = field(default_factory=set)
    jobs: dict[int, model.Job] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def step(self) -> None:
        """One thing that happens, in both tellings."""
        before = len(self.lines)
        often = [self.submit] * 3 + [self.cycle] * 4 + [self.claim] * 6 + [self.run] * 5 + [self.end] * 5
        self.random.choice([*often, self.cancel, self.requeue, self.cordon, self.resume, self.resume])()
        if len(self.lines) == before:
            return  # no job or node was in a state for this step
        assert normal(pool_snapshot(self.world.pool, seed=0)) == normal(self.told), "\n".join(self.lines)
        if self.lines[-1].startswith(("cycle", "end")):
            assert unsound() == [], "\n".join(self.lines)

    def submit(self) -> None:
        gpu_type = self.random.choice(["", "A100:", "V100:"])
        gpus, nodes = self.random.choice([0, 1, 1, 2, 2, 3]), self.random.choice(self.gangs)
        spec: dict[str, Any] = {
            "gpus": f"{gpu_type}{gpus}",
            "nodes": nodes,
            "cpus": self.random.choice(self.cpus),
            "memory": "1GiB",
            "vc": self.random.choice(self.vcs),
            "priority": self.random.choice(["low", "normal"]),
            "retry": {"max": 0},
        }
        if self.random.random() < 0.2:
            spec |= {"preemptible": False, "time": "1h"}
        if self.random.random() < 0.5:
            spec |= {"checkpoint": {"grace": "5s"}}
        row = submit(self.world, **spec)
        row.expected_s = self.random.choice([None, self.random.uniform(100, 100_000)])
        row.expected_p10_s = row.expected_p90_s = None
        row.save(update_fields=["expected_s", "expected_p10_s", "expected_p90_s"])
        self.lines.append(f"submit {row.pk} {spec}")
        job = model.Job(
            id=row.pk,
            tenant_id=self.world.tenant.pk,
            vc_id=next(vc.id for vc in self.told.vcs if vc.name == spec["vc"]),
            owner_id=self.world.user.pk,
            priority={"low": 0, "normal": 10}[spec["priority"]],
            job_class=JobClass.GUARANTEED,
            request=Request(
                (Choice((gpu_type.rstrip(":") or None) if gpus else None, gpus, spec["cpus"], 1024),),
                nodes=nodes,
                runtime=RuntimeNeed.PLAIN,
            ),
            submitted_at=row.submitted_at.timestamp(),
            eligible_at=row.eligible_at.timestamp(),
            time_limit_s=3600.0 if "time" in spec else None,
            grace_s=5.0 if "checkpoint" in spec else 30.0,
            attained_gpu_s=0.0,
            avoid_nodes=(),
            preemptible="time" not in spec,
            still_stopping=False,
            checkpoints="checkpoint" in spec,
            expected_s=row.expected_s,
            remaining_s=row.expected_s,
        )
        self.jobs[job.id] = job
        self.wait(job)

    def cycle(self) -> None:
        before = pool_snapshot(self.world.pool, seed=0)
        config = config_of(self.world.pool)
        result = cycle(self.world)
        self.lines.append(f"cycle {result.plan.places} {result.plan.preempts} {result.plan.drops}")
        assert result.refusals == [], "\n".join(self.lines)
        admission = compose(config).admission
        assert check(before, result.plan, admission) == ()
        if result.cycle_id is None:
            assert not self.told.waiting
            return
        row = Cycle.objects.get(pk=result.cycle_id)
        self.told = replace(self.told, now=stored_snapshot(row).now if row.snapshot else before.now)
        plan = decide(self.told, config)
        assert replace(plan, holds=()) == replace(result.plan, holds=()), "\n".join(self.lines)
        self.carry_out(plan, admission)

    def carry_out(self, plan: Plan, admission: Admission) -> None:
        """A valid plan in the model, with what Postgres alone can tell of it."""
        self.told = apply(self.told, plan, awaiting=awaits_preemption(self.told, plan, admission))
        for one in self.told.running:  # the database's clock is its own
            if one.attempt_id < 0:
                placed_at = live_attempt(Job.objects.get(pk=one.job_id)).placed_at.timestamp()
                self.change(replace(one, attempt_id=one.job_id, placed_at=placed_at))
        stopped = {preempt.job_id for preempt in plan.preempts}
        self.will_wait_again |= stopped
        for one in self.told.running:
            if one.job_id in stopped:
                self.change(self.stopped(one))

    def claim(self) -> None:
        attempt = self.pick(lambda one: one.state is not AttemptState.STOPPING and self.unclaimed(one))
        if attempt is None:
            return
        rank = self.random.choice(self.unclaimed(attempt))
        self.lines.append(f"claim {attempt.job_id}.{rank}")
        claim(self.row(attempt, rank))
        self.claimed.setdefault(attempt.job_id, set()).add(rank)
        if attempt.state is AttemptState.PLACED:
            self.change(replace(attempt, state=AttemptState.STARTING))

    def run(self) -> None:
        attempt = self.pick(lambda one: one.state is AttemptState.STARTING and self.starting(one))
        if attempt is None:
            return
        rank = self.random.choice(self.starting(attempt))
        self.lines.append(f"run {attempt.job_id}.{rank}")
        run(self.row(attempt, rank))
        self.note_that_it_ran(attempt, rank)

    def end(self) -> None:
        attempt = self.pick(lambda one: bool(self.claimed.get(one.job_id, set()) & ranks_of(one)))
        if attempt is None:
            return
        rank = self.random.choice(sorted(self.claimed[attempt.job_id] & ranks_of(attempt)))
        reason = self.random.choice([Reason.COMPLETED, Reason.COMPLETED, Reason.EXIT_NONZERO])
        self.lines.append(f"end {attempt.job_id}.{rank} {reason}")
        end(self.row(attempt, rank), reason)
        attempt = self.note_that_it_ran(attempt, rank)
        attempt = replace(attempt, allocations=tuple(one for one in attempt.allocations if one.rank != rank))
        if reason is not Reason.COMPLETED:
            attempt = self.stopped(attempt)
        self.change(attempt)

    def cancel(self) -> None:
        if self.told.waiting and self.random.random() < 0.5:
            job_id = self.random.choice(self.told.waiting).id
            self.lines.append(f"cancel waiting {job_id}")
            cancel_job(user=self.world.user, job=Job.objects.get(pk=job_id))
            self.told = replace(self.told, waiting=tuple(job for job in self.told.waiting if job.id != job_id))
            self.forget(job_id)
            return
        attempt = self.pick(lambda _: True)
        if attempt is None:
            return
        self.lines.append(f"cancel {attempt.job_id}")
        cancel_job(user=self.world.user, job=Job.objects.get(pk=attempt.job_id))
        self.will_wait_again.discard(attempt.job_id)
        self.forget(attempt.job_id)
        self.change(self.stopped(attempt))

    def forget(self, job_id: int) -> None:
        kept = tuple(one for one in self.told.reservations if one.job_id != job_id)
        self.told = replace(self.told, reservations=kept)

    def requeue(self) -> None:
        attempt = self.pick(lambda one: one.state is not AttemptState.STOPPING)
        if attempt is None:
            return
        self.lines.append(f"requeue {attempt.job_id}")
        requeue_job(user=self.world.user, job=Job.objects.get(pk=attempt.job_id))
        self.will_wait_again.add(attempt.job_id)
        self.change(self.stopped(attempt))

    def cordon(self) -> None:
        self.set_schedulable(False)

    def resume(self) -> None:
        self.set_schedulable(True)

    def set_schedulable(self, schedulable: bool) -> None:
        nodes = [node for node in self.told.nodes if node.schedulable is not schedulable]
        if not nodes:
            return
        node = self.random.choice(nodes)
        self.lines.append(f"{node.name} schedulable: {schedulable}")
        row = next(one for one in self.world.nodes if one.pk == node.id)
        (resume_node if schedulable else cordon_node)(node=row, reason="fan", actor="op")
        why_not = "" if schedulable else "cordoned: fan"
        new = replace(node, schedulable=schedulable, unschedulable_reason=why_not, version=node.version + 1)
        self.told = replace(self.told, nodes=tuple(new if one.id == new.id else one for one in self.told.nodes))

    def pick(self, suits: Any) -> model.Running | None:
        found = [attempt for attempt in self.told.running if suits(attempt)]
        return self.random.choice(found) if found else None

    def unclaimed(self, attempt: model.Running) -> list[int]:
        return sorted(ranks_of(attempt) - self.claimed.get(attempt.job_id, set()))

    def starting(self, attempt: model.Running) -> list[int]:
        claimed = self.claimed.get(attempt.job_id, set())
        return sorted((claimed & ranks_of(attempt)) - self.ran.get(attempt.job_id, set()))

    def row(self, attempt: model.Running, rank: int) -> Any:
        return next(one for one in held(live_attempt(Job.objects.get(pk=attempt.job_id))) if one.rank == rank)

    def note_that_it_ran(self, attempt: model.Running, rank: int) -> model.Running:
        ran = self.ran.setdefault(attempt.job_id, set())
        ran.add(rank)
        if attempt.state is AttemptState.STARTING and len(ran) == self.jobs[attempt.job_id].request.nodes:
            attempt = replace(attempt, state=AttemptState.RUNNING)
        self.change(attempt)
        return attempt

    def stopped(self, attempt: model.Running) -> model.Running:
        """The attempt once it stops: unclaimed allocations are free."""
        claimed = self.claimed.get(attempt.job_id, set())
        kept = tuple(one for one in attempt.allocations if one.rank in claimed)
        return replace(attempt, state=AttemptState.STOPPING, allocations=kept)

    def change(self, attempt: model.Running) -> None:
        others = [one for one in self.told.running if one.job_id != attempt.job_id]
        if attempt.allocations:
            running = sorted([*others, attempt], key=lambda one: one.attempt_id)
            self.told = replace(self.told, running=tuple(running))
            return
        self.told = replace(self.told, running=tuple(others))
        self.claimed.pop(attempt.job_id, None)
        self.ran.pop(attempt.job_id, None)
        if attempt.job_id in self.will_wait_again:
            self.will_wait_again.discard(attempt.job_id)
            self.wait(self.as_it_was_told(requeued(attempt, self.told.now)))

    def as_it_was_told(self, job: model.Job) -> model.Job:
        """The job with what only the database's clock knows: when exactly it came back, and what it has had by then."""
        row = Job.objects.get(pk=job.id)
        assert row.requeued_at is not None
        assert 0 <= row.ran_s - self.jobs[job.id].ran_s < WAIT_S
        assert row.attained_gpu_s - self.jobs[job.id].attained_gpu_s == pytest.approx(
            job.request.gpus_total * (row.ran_s - self.jobs[job.id].ran_s)
        )
        left_s = None if job.expected_s is None else job.expected_s - (row.ran_s if job.checkpoints else 0.0)
        job = replace(
            job,
            attained_gpu_s=row.attained_gpu_s,
            ran_s=row.ran_s,
            remaining_s=left_s,
            requeued_at=row.requeued_at.timestamp(),
            eligible_at=row.eligible_at.timestamp(),
        )
        self.jobs[job.id] = job
        return job

    def wait(self, job: model.Job) -> None:
        waiting = sorted([*self.told.waiting, job], key=lambda one: one.id)
        self.told = replace(self.told, waiting=tuple(waiting))


def ranks_of(attempt: model.Running) -> set[int]:
    return {share.rank for share in attempt.allocations}


def normal(snapshot: model.Snapshot) -> model.Snapshot:
    """The snapshot without what the model cannot know: the database's clock and ids of attempts."""
    return replace(
        snapshot,
        now=0.0,
        seed=0,
        reservations=tuple(replace(one, until=0.0) for one in snapshot.reservations),
        running=tuple(
            sorted(
                (replace(one, attempt_id=-one.job_id, placed_at=0.0) for one in snapshot.running),
                key=lambda one: one.attempt_id,
            )
        ),
    )


@dataclass
class TwoPlanners(History):
    """A history in which each of two planners decides on the jobs of one of the virtual clusters.

    What a planner has decided may be old when it is carried out: the other one, and all else, may come in between.
    """

    planners: tuple[Planner | None, ...] = ()
    plans: dict[Planner | None, Decided] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def step(self) -> None:
        if self.random.random() < 0.4:
            self.submit()
            self.random.choice([self.plan, self.carry_out_late, self.both])()
            assert normal(pool_snapshot(self.world.pool, seed=0)) == normal(self.told), "\n".join(self.lines)
            assert unsound() == [], "\n".join(self.lines)
        super().step()

    def cycle(self) -> None:
        planner = self.random.choice(self.planners)
        self.plan_of(planner)
        assert self.carry_out_of(planner) == []

    def plan(self) -> None:
        self.plan_of(self.random.choice(self.planners))

    def carry_out_late(self) -> None:
        self.carry_out_of(self.random.choice(self.planners))

    def both(self) -> None:
        """Both take their snapshots, and then both apply their plans."""
        for planner in self.planners:
            self.plan_of(planner)
        for planner in self.random.sample(self.planners, len(self.planners)):
            self.carry_out_of(planner)

    def plan_of(self, planner: Planner | None) -> None:
        decided = decide_for(self.world.pool, planner, "command")
        self.lines.append(f"plan of {planner}: {decided.plan.places} {decided.plan.preempts}")
        scope = scope_of(self.world.pool, planner)
        assert scope is not None
        told = replace(self.told, now=decided.snapshot.now)
        seen = seen_by(told, scope)
        assert normal(seen) == normal(decided.snapshot), "\n".join(self.lines)
        assert {job.vc_id for job in seen.waiting} <= {vc.id for vc in self.told.vcs if scope.has(vc.id)}
        plan = own_part(seen, decide(seen, decided.config))
        assert replace(plan, holds=()) == replace(decided.plan, holds=()), "\n".join(self.lines)
        self.plans[planner] = decided

    def carry_out_of(self, planner: Planner | None) -> list[int]:
        """Carries out what the planner decided last, in both tellings; returns the ids of the refused jobs."""
        if planner not in self.plans:
            return []
        decided = self.plans.pop(planner)
        before = pool_snapshot(self.world.pool, seed=0).now
        ids = dict(Attempt.objects.filter(state__in=ATTEMPT_LIVE).values_list("job_id", "pk"))
        result, _ = carry_out(self.world.pool, planner, "command", decided)
        self.lines.append(f"cycle of {planner}: {result.applied}")
        self.told = replace(self.told, now=before)
        applied, refused = self.tell(planner, decided, ids)
        assert (applied, refused) == (
            {*result.applied.started, *result.applied.reserved},
            {refusal.job_id for refusal in result.refusals},
        ), "\n".join(self.lines)
        self.counts.update(overtaken=sum("held by a live attempt" in refusal.reason for refusal in result.refusals))
        self.counts.update(applied=len(applied), refused=len(refused), preempted=len(result.applied.preempted))
        return sorted(refused)

    def tell(self, planner: Planner | None, decided: Decided, ids: dict[int, int]) -> tuple[set[int], set[int]]:
        """The jobs that start or get a reservation by the law, told in the model, and those that are refused."""
        plan, admission = decided.plan, compose(decided.config).admission
        self.told = apply(self.told, Plan((), (), notes=plan.notes, drops=plan.drops))
        units = units_of(decided.snapshot, plan, admission)
        batches = list(batches_of(decided.snapshot, units))
        start, applied, refused = self.told, set[int](), set[int]()
        done: list[Plan] = []
        for unit in (unit for batch in batches for unit in batch):
            jobs = {one.job_id for one in unit.places or unit.preempts}
            if self.is_refused(unit, decided, ids, admission):
                refused |= jobs
                continue
            applied |= {place.job_id for place in unit.places}
            done.append(unit.plan)
            self.told = apply(self.told, unit.plan, awaiting=awaits_preemption(self.told, unit.plan, admission))
        self.told = start
        if planner is not None and planner.all_or_nothing and refused:
            return set(), {one.job_id for unit in units for one in unit.places or unit.preempts}
        for part in done:
            self.carry_out(part, admission)
        return applied, refused

    def is_refused(self, unit: Unit, decided: Decided, ids: dict[int, int], admission: Admission) -> bool:
        """True if the validator refuses the unit as the pool is now, or a job of it is not to run any more."""
        placed = {place.job_id for place in unit.places}
        moving = placed & {preempt.job_id for preempt in unit.preempts}
        if (placed - moving) - self.told.waiting_by_id.keys():
            return True
        return bool(changed_since(decided.snapshot, self.as_stored(ids), unit.plan)) or bool(
            check(self.told, unit.plan, admission)
        )

    def as_stored(self, ids: dict[int, int]) -> model.Snapshot:
        """The model with the ids of attempts that Postgres has, by job."""
        running = (replace(one, attempt_id=ids.get(one.job_id, one.attempt_id)) for one in self.told.running)
        return replace(self.told, running=tuple(running))


class Pooled(Quota):
    """Quotas under the default lock."""

    lock_scope = LockScope.POOL


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("admission", ["quota", "borrow", "pooled", "tree"])
@pytest.mark.parametrize("skip_blocked", [True, False])
def test_postgres_and_the_model_tell_the_same_story(
    seed: int, skip_blocked: bool, admission: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ADMISSIONS.__dict__, "_classes", {**ADMISSIONS._classes, "pooled": Pooled})
    world = make_world(
        nodes=2, gpus=4, quota=6, policy_params={"skip_blocked": skip_blocked}, admission=admission, admission_params={}
    )
    world.nodes.append(make_node(world.pool, gpus=3, gpu_type="V100", cpus=32))
    other = make_vc(world.tenant, world.pool, quotas={"A100": 3, "V100": 2})
    history = History(
        random=random.Random(seed),
        world=world,
        vcs=[world.vc.name, other.name],
        told=pool_snapshot(world.pool, seed=0),
    )
    for _ in range(STEPS):
        history.step()
    assert any("Place(" in line for line in history.lines)


@pytest.mark.parametrize(("policy", "params"), [("srtf", {}), ("tiresias", {"limits_gpu_s": [0.05, 0.5]})])
def test_postgres_and_the_model_tell_the_same_story_of_preemptions(policy: str, params: dict[str, Any]) -> None:
    lines: list[str] = []
    for seed in range(5):
        world = make_world(nodes=2, gpus=4, quota=6, policy=policy, policy_params=params)
        world.nodes.append(make_node(world.pool, gpus=3, gpu_type="V100", cpus=32))
        other = make_vc(world.tenant, world.pool, quotas={"A100": 3, "V100": 2})
        history = History(
            random=random.Random(seed),
            world=world,
            vcs=[world.vc.name, other.name],
            told=pool_snapshot(world.pool, seed=0),
        )
        for _ in range(STEPS):
            history.step()
        lines += history.lines
    assert any("Preempt(" in line for line in lines)
    assert Cycle.objects.filter(reserved__gt=0).exists()
    assert not Cycle.objects.exclude(error="").exists()


def two_planners(seed: int, *, all_or_nothing: bool, policies: tuple[str, str], admission: str) -> TwoPlanners:
    """A pool with a planner for each of two virtual clusters, which both may have nearly all of it."""
    world = make_world(nodes=1, gpus=4, quota=4, policy=policies[0], admission=admission)
    world.nodes.append(make_node(world.pool, gpus=2, gpu_type="V100", cpus=32))
    other = make_vc(world.tenant, world.pool, quotas={"A100": 4, "V100": 2})
    second = save_planner(
        planner=Planner(pool=world.pool, name="second", policy=policies[1], all_or_nothing=all_or_nothing),
        virtual_clusters=[other],
        actor="op",
    )
    return TwoPlanners(
        random=random.Random(seed),
        world=world,
        vcs=[world.vc.name, other.name],
        told=pool_snapshot(world.pool, seed=0),
        gangs=(1,),
        cpus=(1,),
        planners=(None, second),
    )


@pytest.mark.parametrize("all_or_nothing", [False, True])
@pytest.mark.parametrize(
    ("policies", "admission"),
    [(("fifo", "fifo"), "quota"), (("srtf", "fifo"), "pooled"), (("srtf", "tiresias"), "borrow")],
)
def test_postgres_and_the_model_tell_the_same_story_of_two_planners(
    policies: tuple[str, str], admission: str, all_or_nothing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ADMISSIONS.__dict__, "_classes", {**ADMISSIONS._classes, "pooled": Pooled})
    counts = Counter[str]()
    for seed in range(2):
        history = two_planners(seed, all_or_nothing=all_or_nothing, policies=policies, admission=admission)
        for _ in range(STEPS):
            history.step()
        counts += history.counts
        planners = Cycle.objects.filter(pool=history.world.pool).values_list("planner", flat=True)
        assert set(planners) == {"", "second"}
    assert counts["applied"] > counts["refused"] >= counts["overtaken"] > 0
    if "srtf" in policies:
        assert counts["preempted"] > 0
    assert not Cycle.objects.exclude(error="").exists()


def test_the_history_reaches_every_kind_of_step() -> None:
    world = make_world(nodes=2, gpus=4)
    history = History(random.Random(1), world, [world.vc.name], pool_snapshot(world.pool, seed=0))
    for happen in (history.submit, history.cycle, history.claim, history.run, history.end):
        happen()
    assert [line.split()[0] for line in history.lines] == ["submit", "cycle", "claim", "run", "end"]
