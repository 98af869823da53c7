"""Waiting and running jobs under every ordered policy."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.cycle import CycleConfig, decide
from scheduler.model import Job, Running, Snapshot
from scheduler.model.plan import Preempt
from tests.profiles import examples
from tests.unit.scheduler.driving import carried_out, running
from tests.unit.scheduler.factories import asking, make_job, make_node, make_running, make_share, make_snapshot

SRTF = CycleConfig(policy="srtf")


def lot(job_id: int, gpus: int, left_s: float) -> Job:
    """A divisible job with this remaining time."""
    job = make_job(job_id, gpus=gpus, expected_s=left_s, remaining_s=left_s, checkpoints=True)
    return asking(job, split=True, cpus=0, memory_mib=0, submitted_at=0.0)


def runs(job: Job, first_gpu: int) -> Running:
    """The job on GPUs of node 1 from this one on, started now."""
    share = make_share(1, range(first_gpu, first_gpu + job.request.first.gpus), cpus=0, memory_mib=0)
    return replace(make_running(share, attempt_id=job.id, job=job), placed_at=make_snapshot().now)


def test_a_preempted_job_stays_if_a_wider_job_preempted_later_leaves_room() -> None:
    # Job 1 takes the four GPUs of job 4. Then job 2 takes one of the six of job 3, and five are left.
    world = make_snapshot(
        nodes=[make_node(gpus=10)],
        waiting=[lot(1, 4, 20), lot(2, 1, 35)],
        running=[runs(lot(3, 6, 37), 0), runs(lot(4, 4, 40), 6)],
    )
    plan = decide(world, SRTF)
    assert [preempt.job_id for preempt in plan.preempts] == [3]
    assert running(carried_out(world, SRTF)) == {1, 2, 4}


def test_to_stay_it_may_preempt_later_jobs() -> None:
    world = make_snapshot(
        nodes=[make_node(gpus=11)],
        waiting=[lot(1, 5, 20), lot(2, 3, 35)],
        running=[runs(lot(3, 6, 37), 0), runs(lot(4, 3, 40), 6), runs(lot(5, 2, 60), 9)],
    )
    plan = decide(world, SRTF)
    assert running(carried_out(world, SRTF)) == {1, 2, 4}
    assert {preempt.job_id for preempt in plan.preempts} == {3, 5}
    assert all(isinstance(preempt, Preempt) and preempt.for_job_id in {1, 2} for preempt in plan.preempts)


@st.composite
def lots(draw: st.DrawFn) -> tuple[int, list[Job], list[Job]]:
    """A number of GPUs, jobs that run on them, and jobs that wait."""
    total = draw(st.integers(1, 12))
    times = draw(st.permutations(range(1, 15)))
    free, held, waiting = total, [], []
    for job_id in range(1, draw(st.integers(1, 12)) + 1):
        job = lot(job_id, draw(st.integers(1, 8)), times[job_id])
        if draw(st.booleans()) and job.request.first.gpus <= free:
            held.append(job)
            free -= job.request.first.gpus
        else:
            waiting.append(job)
    return total, held, waiting


def granted(total: int, jobs: list[Job]) -> set[int]:
    """The ids of the jobs that get GPUs when all are asked in order, skipping those that do not fit."""
    chosen = set()
    for job in sorted(jobs, key=lambda one: one.remaining_s or 0.0):
        if job.request.first.gpus <= total:
            total -= job.request.first.gpus
            chosen.add(job.id)
    return chosen


def world_of(total: int, held: list[Job], waiting: list[Job]) -> Snapshot:
    first, attempts = 0, []
    for job in held:
        attempts.append(runs(job, first))
        first += job.request.first.gpus
    return make_snapshot(nodes=[make_node(gpus=total)], waiting=waiting, running=attempts)


@settings(max_examples=examples(300))
@given(lots())
def test_one_decision_does_what_granting_gpus_in_the_order_of_the_keys_would(
    drawn: tuple[int, list[Job], list[Job]],
) -> None:
    total, held, waiting = drawn
    world = world_of(total, held, waiting)
    plan = decide(world, SRTF)
    after = ({job.id for job in held} - {preempt.job_id for preempt in plan.preempts}) | {
        place.job_id for place in plan.places
    }
    assert after == granted(total, [*held, *waiting])
