"""Properties of Gandiva's plans, and that the index of suspended jobs changes no decision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.context import CycleContext
from scheduler.engine.cycle import CycleConfig, compose, decide, decide_on
from scheduler.engine.state import SchedulerState
from scheduler.model import Snapshot
from scheduler.model.invariants import check
from scheduler.model.lifecycle import JobClass
from scheduler.model.plan import apply, release
from scheduler.policies.gandiva import Gandiva
from scheduler.policies.gandiva.suspended import SuspendedJobs, WakeQueue
from tests.profiles import examples
from tests.unit.scheduler.driving import later, running
from tests.unit.scheduler.factories import NOW, asking, make_snapshot, make_vc
from tests.unit.scheduler.policies.test_gandiva import GANDIVA, SPEEDS, gandiva, job, lot, nodes, runs


@st.composite
def histories(draw: st.DrawFn, admissions: Sequence[str] = ("quota", "borrow")) -> tuple[Snapshot, CycleConfig]:
    """A pool after some decisions, with running, suspended and waiting jobs."""
    config = gandiva(
        slice_s=draw(st.sampled_from([None, 10])),
        max_height=draw(st.sampled_from([1.5, 4])),
        introspect_s=draw(st.sampled_from([None, 20])),
        grow_after_s=draw(st.sampled_from([None, 1, 15])),
        trial_s=draw(st.sampled_from([None, 5])),
    )
    admission = draw(st.sampled_from(admissions))
    config = replace(config, max_places=draw(st.sampled_from([1, 3, 256])), admission=admission)
    vcs = [make_vc(1, "a", {"A100": draw(st.integers(1, 12))}), make_vc(2, "b", {"A100": 12})]
    world = make_snapshot(nodes=nodes(3), vcs=vcs)
    number = 0
    for step in range(draw(st.integers(1, 5))):
        arrived = []
        for _ in range(draw(st.integers(0, 5))):
            number += 1
            wide = draw(st.booleans())
            one = (lot if wide else job)(number, draw(st.integers(1, 6 if wide else 4)))
            able = draw(st.booleans())
            arrived.append(
                asking(
                    one,
                    vc_id=draw(st.sampled_from([1, 2])),
                    checkpoints=draw(st.integers(0, 3)) > 0,
                    preemptible=draw(st.integers(0, 3)) > 0,
                    job_class=draw(st.sampled_from(list(JobClass))),
                    submitted_at=NOW + 10 * step,
                    max_gpus=4 if able and one.request.first.gpus < 4 else 0,
                    speeds=SPEEDS if able and one.request.first.gpus < 4 else (),
                )
            )
        ended = draw(st.sets(st.sampled_from(sorted(running(world))), max_size=2)) if running(world) else set()
        world = later(world, NOW + 10 * step, arrived, ended)
        speeds = st.sampled_from([None, 1.0, 2.0])
        world = replace(world, running=tuple(replace(run, speed=draw(speeds)) for run in world.running))
        if draw(st.booleans()):
            plan = decide(world, config)
            world = release(apply(world, plan), [preempt.job_id for preempt in plan.preempts])
    return world, config


@settings(max_examples=examples(150))
@given(histories())
def test_a_plan_is_lawful_and_answers_every_job_once(drawn: tuple[Snapshot, CycleConfig]) -> None:
    world, config = drawn
    plan = decide(world, config)
    assert check(world, plan, compose(config).admission) == ()
    answered = Counter([place.job_id for place in plan.places] + [hold.job_id for hold in plan.holds])
    moved = {preempt.job_id for preempt in plan.preempts if preempt.job_id == preempt.for_job_id}
    assert answered == Counter([*world.waiting_by_id, *moved])
    assert len(plan.places) <= config.max_places
    assert decide(replace(world, waiting=world.waiting[::-1], running=world.running[::-1]), config) == plan


@settings(max_examples=examples(150))
@given(histories())
def test_no_job_is_suspended_before_its_slice_ends_and_all_suspended_jobs_can_resume(
    drawn: tuple[Snapshot, CycleConfig],
) -> None:
    world, config = drawn
    config = replace(config, admission="quota")
    for preempt in decide(world, config).preempts:
        run = world.running_by_job[preempt.job_id]
        assert run.job.preemptible
        assert run.job.checkpoints
        assert preempt.for_job_id == preempt.job_id or world.now - run.placed_at >= 10


@given(histories())
def test_no_gpu_idles_that_a_job_of_one_gpu_could_have(drawn: tuple[Snapshot, CycleConfig]) -> None:
    world, config = drawn
    config = replace(config, max_places=256, admission="quota")
    # A node may be reserved for a wider job whose slice begins soon: only without time slices is nothing ever left
    # idle.
    config = replace(config, policy_params={**config.policy_params, "slice_s": None})
    world = replace(world, waiting=tuple(replace(one, policy_state={}) for one in world.waiting))
    after = apply(world, decide(world, config))
    held = {gpu for run in after.running for share in run.allocations for gpu in share.gpu_ids}
    held |= {gpu for kept in after.reservations for share in kept.allocations for gpu in share.gpu_ids}
    idle = len(after.gpu_by_id) - len(held)
    small = [
        one
        for one in after.waiting
        if one.request.first.gpus == 1 and one.vc_id == 2 and one.id not in after.running_by_job
    ]
    kept = {one.job_id for one in after.reservations}
    assert not (idle and [one for one in small if one.id not in kept])


@settings(max_examples=examples(150))
@given(histories(admissions=("open", "quota")))
def test_examining_all_jobs_again_changes_nothing(drawn: tuple[Snapshot, CycleConfig]) -> None:
    world, config = drawn
    awake = replace(
        world,
        waiting=tuple(
            replace(one, policy_state={key: value for key, value in one.policy_state.items() if key != "next"})
            for one in world.waiting
        ),
    )
    plan, anew = decide(world, config), decide(awake, config)
    assert (plan.places, plan.preempts) == (anew.places, anew.preempts)


@settings(max_examples=examples(150))
@given(histories())
def test_a_decision_without_explanations_decides_as_one_that_looks_at_every_suspended_job(
    drawn: tuple[Snapshot, CycleConfig],
) -> None:
    world, config = drawn
    parts = compose(config)
    few = decide_on(SchedulerState(world), parts, max_places=256, explain=False)
    every = decide_on(SchedulerState(world), parts, max_places=256, explain=True)
    assert (few.places, few.preempts, few.notes) == (every.places, every.preempts, every.notes)


def test_a_decision_examines_only_suspended_jobs_that_are_due_or_have_free_gpus_on_their_nodes() -> None:
    full, partly = (runs(job(1, 4), (1, range(4))), runs(job(2, 2), (2, range(2))))
    policy_states = [{"node 1": 4.0, "next": NOW + 30}] * 50 + [
        {"node 1": 4.0, "next": NOW},
        {"node 2": 4.0, "next": NOW + 30},
    ]
    waiting = [job(number, 4, policy_state=policy_state) for number, policy_state in enumerate(policy_states, start=10)]
    state = SchedulerState(make_snapshot(nodes=nodes(2), waiting=waiting, running=[full, partly]))
    parts = compose(GANDIVA)
    context = CycleContext(state, parts.admission, parts.placement, max_places=256, explain=False)
    index = state.waiting_index(SuspendedJobs, lambda: SuspendedJobs(Gandiva().waiting_key))
    index.refresh()
    wake_queue = WakeQueue(context, index, examine_all=False)
    assert [one.job.id for one in iter(wake_queue.next, None)] == [60, 61]
    # A job that starts leaves the index, so no decision examines it.
    state.remove_waiting(60)
    index.refresh()
    wake_queue = WakeQueue(context, index, examine_all=False)
    assert [one.job.id for one in iter(wake_queue.next, None)] == [61]
