"""Moves between Tiresias's queues, and rounds that equal those of a program with lists."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.cycle import CycleConfig, decide
from scheduler.model import Job, KnownRate, Locality, Rate, Running
from scheduler.policies.tiresias import Tiresias
from scheduler.policies.tiresias.service import service_of
from scheduler.registry import ConfigError
from tests.profiles import examples
from tests.unit.scheduler.driving import carried_out, later, running
from tests.unit.scheduler.factories import NOW, make_job, make_node, make_running, make_share, make_snapshot, make_vc

AUTHORS = (3250.0, 7200.0, 18_000.0)


def runs(gpus: int, for_s: float, **fields: Any) -> Running:
    return replace(
        make_running(make_share(1, range(gpus)), job=make_job(1, gpus=gpus, **fields)), placed_at=NOW - for_s
    )


# (the run, its next check, its policy state by then)
DEMOTIONS: dict[str, tuple[Running, float | None, Mapping[str, float] | None]] = {
    "GPUs count": (runs(4, 100), NOW + 712.5, {"queue": 1, "since": NOW + 712.5}),
    "what earlier attempts had counts": (
        runs(1, 0, attained_gpu_s=3000.0),
        NOW + 250,
        {"queue": 1, "since": NOW + 250},
    ),
    "from the second queue to the third": (
        runs(2, 0, attained_gpu_s=7000.0, policy_state={"queue": 1, "since": 7.0}),
        NOW + 100,
        {"queue": 2, "since": NOW + 100},
    ),
    "over two limits at once, seen late": (runs(8, 1000), NOW, {"queue": 2, "since": NOW}),
    "what it had before its promotion does not count": (
        runs(
            1, 0, attained_gpu_s=5000.0, policy_state={"queue": 0, "since": 7.0, "attained_gpu_s": 4000.0, "ran_s": 9.0}
        ),
        NOW + 2250,
        {"queue": 1, "since": NOW + 2250, "attained_gpu_s": 4000.0, "ran_s": 9.0},
    ),
    "no job leaves the last queue": (
        runs(8, 0, attained_gpu_s=99_999.0, policy_state={"queue": 3, "since": 7.0}),
        None,
        None,
    ),
    "a job without GPUs attains nothing": (
        replace(make_running(make_share(1, ()), job=make_job(1, gpus=0)), placed_at=NOW - 1e6),
        None,
        None,
    ),
}


@pytest.mark.parametrize(("run", "at", "policy_state"), DEMOTIONS.values(), ids=DEMOTIONS)
def test_a_job_goes_down_exactly_when_it_reaches_its_limit(
    run: Running, at: float | None, policy_state: Mapping[str, float] | None
) -> None:
    policy = Tiresias(limits_gpu_s=AUTHORS)
    assert policy.next_change(run.job, run, NOW) == at
    if at is None:
        assert policy.review(run.job, run, NOW + 1e9) is None
        return
    assert policy.review(run.job, run, at) == policy_state
    if at > NOW:
        assert policy.review(run.job, run, at - 0.001) is None


BELOW = {"queue": 1, "since": NOW - 9000, "attained_gpu_s": 0.0, "ran_s": 40.0}
PROMOTIONS: dict[str, tuple[Job, float, float | None]] = {
    "by the knob times what it ran since its last promotion": (
        make_job(requeued_at=NOW - 10, ran_s=100.0, attained_gpu_s=5000.0, policy_state=BELOW),
        2,
        NOW + 110,
    ),
    "a back-off is no waiting": (
        make_job(requeued_at=NOW - 500, eligible_at=NOW - 10, ran_s=100.0, attained_gpu_s=5000.0, policy_state=BELOW),
        2,
        NOW + 110,
    ),
    "not from the first queue": (make_job(ran_s=1.0, attained_gpu_s=1.0), 2, None),
    "not without a knob": (make_job(ran_s=100.0, attained_gpu_s=5000.0, policy_state=BELOW), 0, None),
}


@pytest.mark.parametrize(("job", "knob", "at"), PROMOTIONS.values(), ids=PROMOTIONS)
def test_a_job_goes_up_exactly_when_it_has_waited_too_long_for_what_it_ran(
    job: Job, knob: float, at: float | None
) -> None:
    policy = Tiresias(limits_gpu_s=AUTHORS, promote_knob=knob)
    assert policy.next_change(job, None, NOW) == at
    if at is None:
        assert policy.review(job, None, NOW + 1e9) is None
        return
    assert policy.review(job, None, at - 0.001) is None
    assert policy.review(job, None, at) == {"queue": 0, "since": at, "attained_gpu_s": 5000.0, "ran_s": 100.0}


def lot(job_id: int, gpus: int, **fields: Any) -> Job:
    return make_job(job_id, gpus=gpus, split=True, cpus=0, memory_mib=0, **fields)


def test_a_new_job_preempts_a_demoted_one_and_is_preempted_in_turn() -> None:
    config = CycleConfig(policy="tiresias", policy_params={"limits_gpu_s": [800]})
    world = carried_out(make_snapshot(waiting=[lot(1, 8, submitted_at=NOW)]), config)
    world = carried_out(later(world, NOW + 99, [lot(2, 8, submitted_at=NOW + 99)]), config)
    assert running(world) == {1}
    world = carried_out(later(world, NOW + 100), config)
    assert running(world) == {2}
    assert world.waiting[0].policy_state == {"queue": 1, "since": NOW + 100}
    # both are in the second queue now; the first one entered it earlier
    world = carried_out(later(world, NOW + 200), config)
    assert running(world) == {1}
    assert decide(world, config).preempts == ()


TIES = {"entered": [2, 1], "submitted": [1, 2]}


@pytest.mark.parametrize(("tie", "expected"), TIES.items(), ids=TIES)
def test_a_queue_is_in_the_order_of_entry_or_of_submission(tie: str, expected: list[int]) -> None:
    jobs = [
        make_job(1, submitted_at=1.0, policy_state={"queue": 1, "since": 90.0}),
        make_job(2, submitted_at=2.0, policy_state={"queue": 1, "since": 80.0}),
        make_job(3, submitted_at=99.0),
    ]
    assert [job.id for job in Tiresias(tie=tie).order(make_snapshot(waiting=jobs))] == [3, *expected]


def test_a_started_job_keeps_its_gpus_for_the_minimum_time() -> None:
    config = CycleConfig(policy="tiresias", policy_params={"limits_gpu_s": [80], "min_run_s": 60})
    world = carried_out(make_snapshot(waiting=[lot(1, 8, submitted_at=NOW)]), config)
    world = carried_out(later(world, NOW + 59, [lot(2, 8, submitted_at=NOW + 59)]), config)
    assert running(world) == {1}
    assert Tiresias(min_run_s=60).next_change(world.running[0].job, world.running[0], NOW + 59) == NOW + 60
    assert running(carried_out(later(world, NOW + 60), config)) == {2}


# Round by round: a program with lists for queues, and decisions on snapshots.

LIMIT, ROUND_S, GPUS = 600.0, 60.0, 8
Script = list[tuple[int, int, int]]  # for each job: the round of its arrival, its GPUs, and its run time in rounds


def by_lists(script: Script, *, running_first: bool = False) -> list[set[int]]:
    """The jobs that run in each round: queues are lists, GPUs are granted by number, demotion is at the start of a
    round.

    With `running_first`, waiting jobs are moved behind running ones at the end of each round's decision.
    """
    queues: tuple[list[int], list[int]] = ([], [])
    ran = dict.fromkeys(range(1, len(script) + 1), 0)
    chosen: set[int] = set()
    history = []
    for number in range(200):
        for job_id in sorted(chosen):
            ran[job_id] += 1
        done = {job_id for job_id in ran if ran[job_id] == script[job_id - 1][2]}
        for queue in queues:
            queue[:] = [job_id for job_id in queue if job_id not in done]
        queues[0].extend(job_id for job_id in ran if script[job_id - 1][0] == number)
        for job_id in sorted(chosen & set(queues[0])):
            if ran[job_id] * ROUND_S * script[job_id - 1][1] >= LIMIT:
                queues[0].remove(job_id)
                queues[1].append(job_id)
        free, chosen = GPUS, set()
        for job_id in [*queues[0], *queues[1]]:
            if script[job_id - 1][1] <= free:
                free -= script[job_id - 1][1]
                chosen.add(job_id)
        if running_first:
            for queue in queues:
                queue.sort(key=lambda job_id: job_id not in chosen)
        history.append(chosen)
        if len(done) == len(script):
            break
    return history


def by_decisions(script: Script, *, tie: str = "entered") -> list[set[int]]:
    """The same by decisions on snapshots, with the ends of jobs at the start of a round."""
    config = CycleConfig(policy="tiresias", policy_params={"limits_gpu_s": [LIMIT], "tie": tie})
    world, history = make_snapshot(nodes=[make_node(1, gpus=GPUS)]), []
    finished: set[int] = set()
    for number in range(200):
        now = NOW + number * ROUND_S
        ended = [run.job.id for run in world.running if run.ran_s(now) >= script[run.job.id - 1][2] * ROUND_S]
        finished |= set(ended)
        arrived = [
            lot(job_id, gpus, submitted_at=now, checkpoints=True)
            for job_id, (comes, gpus, _) in enumerate(script, start=1)
            if comes == number
        ]
        world = carried_out(later(world, now, arrived, ended), config)
        history.append(running(world))
        if len(finished) == len(script):
            break
    return history


@settings(max_examples=examples(150))
@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(1, 8), st.integers(1, 12)), min_size=1, max_size=10).map(sorted)
)
def test_each_round_is_that_of_a_program_with_lists_for_queues(script: Script) -> None:
    assert by_decisions(script) == by_lists(script)


@settings(max_examples=examples(150))
@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(1, 8), st.integers(1, 12)), min_size=1, max_size=10).map(sorted)
)
def test_with_running_first_each_round_is_that_of_lists_in_which_waiting_jobs_move_behind(script: Script) -> None:
    assert by_decisions(script, tie="running_first") == by_lists(script, running_first=True)


# The index by hand; the samples are 100, 200, 1000, 1000.
INDEXES: dict[str, tuple[float, float]] = {
    "of a new job, which ends soonest within 100 or 200": (0, 2 / (100 + 200 * 3)),
    "of one that has outlived the shortest": (100, 1 / (100 * 3)),
    "of one that ends for sure": (900, 1 / 100),
    "of one that has had more than all": (1000, 0.0),
}
RELEASED: dict[str, tuple[float, float, float]] = {
    "of a new job": (0, 150, (1 / 4) / ((100 + 150 * 3) / 4)),
    "of one that has had more than delta": (900, 150, 1 / 150),
    "of one that never ends so soon": (200, 150, 0.0),
}


@pytest.mark.parametrize(("attained", "index"), INDEXES.values(), ids=INDEXES)
def test_the_gittins_index_is_the_supremum_over_delta(attained: float, index: float) -> None:
    assert service_of([1000, 100, 1000, 200]).index(attained) == pytest.approx(index)


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=8), st.integers(0, 1000))
def test_no_delta_beats_the_gittins_index(samples: list[int], attained: int) -> None:
    left = [sample - attained for sample in samples if sample > attained]
    deltas = range(1, 1001) if left else ()
    ratios = [sum(one <= delta for one in left) / sum(min(one, delta) for one in left) for delta in deltas]
    assert service_of(samples).index(attained) == pytest.approx(max(ratios, default=0.0))


@pytest.mark.parametrize(("attained", "delta", "index"), RELEASED.values(), ids=RELEASED)
def test_the_index_as_released_has_a_fixed_delta(attained: float, delta: float, index: float) -> None:
    assert service_of([1000, 100, 1000, 200]).released_index(attained, delta) == pytest.approx(index)


def test_by_the_index_a_job_that_is_about_to_end_goes_before_a_new_one() -> None:
    policy = Tiresias(variant="gittins", service_gpu_s=[100, 1000, 1000, 1000], delta_gpu_s=300)
    jobs = [
        make_job(1, policy_state={"queue": 3, "since": 5.0}),
        make_job(2),
        make_job(3, policy_state={"queue": 1, "since": 5.0}),
    ]
    assert [job.id for job in policy.order(make_snapshot(waiting=jobs))] == [1, 2, 3]
    run = runs(4, 0, attained_gpu_s=100.0)
    assert policy.next_change(run.job, run, NOW) == NOW + 50


def test_the_index_needs_a_sample() -> None:
    with pytest.raises(ConfigError, match="needs samples in service_gpu_s"):
        Tiresias(variant="gittins")


def told(slowdown: float | None, gpus: int = 4) -> tuple[KnownRate, ...]:
    return (KnownRate("A100", gpus, Rate(1.0, None, "measured"), slowdown),)


# (GPUs of the job, what is known of it, the free GPUs on each node, the GPUs that it gets on each node)
TOGETHER: dict[str, tuple[int, tuple[KnownRate, ...], list[int], list[int]]] = {
    "a slow job waits for one node": (4, told(2.5), [2, 3], []),
    "and takes it": (4, told(2.5), [2, 4], [4]),
    "a job that is not slow takes what there is": (4, told(1.5), [2, 3], [1, 3]),
    "so does one that is exactly at the limit": (4, told(2.0), [2, 3], [1, 3]),
    "and one of which nothing is known": (4, told(None), [2, 3], [1, 3]),
    "a rate on other GPUs says nothing": (4, told(2.5, gpus=2), [2, 3], [1, 3]),
    "no node of the pool holds it": (9, told(2.5, gpus=9), [8, 1], [1, 8]),
}


@pytest.mark.parametrize(("gpus", "rates", "free", "expected"), TOGETHER.values(), ids=TOGETHER)
def test_a_job_that_slows_down_on_several_nodes_waits_for_one(
    gpus: int, rates: tuple[KnownRate, ...], free: list[int], expected: list[int]
) -> None:
    nodes = [make_node(number, unhealthy=range(each, 8)) for number, each in enumerate(free, start=1)]
    world = make_snapshot(nodes=nodes, waiting=[lot(1, gpus, rates=rates)])
    plan = decide(world, CycleConfig(policy="tiresias", policy_params={"slowdown": 2}))
    assert sorted(len(share.gpu_ids) for place in plan.places for share in place.allocations) == expected


@pytest.mark.parametrize(("racks", "waits"), [(["r1", "r1"], False), (["r1", "r2"], True)])
def test_a_gang_that_slows_down_waits_for_one_rack(racks: list[str], waits: bool) -> None:
    nodes = [make_node(number, gpus=4, rack=rack) for number, rack in enumerate(racks, start=1)]
    nodes.append(make_node(3, gpus=4, rack="r1", unhealthy=range(4)))
    world = make_snapshot(nodes=nodes, waiting=[make_job(1, gpus=4, nodes=2, rates=told(2.5, gpus=8))])
    plan = decide(world, CycleConfig(policy="tiresias", policy_params={"slowdown": 2}))
    assert (not plan.places) is waits


def test_a_job_that_waits_for_one_node_is_told_that_the_pool_wants_it_so() -> None:
    nodes = [make_node(number, unhealthy=range(each, 8)) for number, each in ((1, 2), (2, 3))]
    world = make_snapshot(nodes=nodes, waiting=[lot(1, 4, rates=told(2.5))])
    (hold,) = decide(world, CycleConfig(policy="tiresias", policy_params={"slowdown": 2})).holds
    assert hold.detail.endswith("; this job needs 4 within one node, by the settings of the pool")
    assert hold.helps == ("4 A100 become free within one node",)


def test_jobs_are_kept_together_by_gpu_type_and_by_default_not_at_all() -> None:
    rates = tuple(KnownRate(kind, 4, Rate(1.0, None, "trace"), slow) for kind, slow in (("V100", 3.0), ("K80", 1.1)))
    job = make_job(1, gpus=4, gpu_type=None, rates=rates)
    assert Tiresias(slowdown=2).kept_together(job) == {"V100"}
    assert Tiresias().kept_together(job) == frozenset()


def test_a_job_on_one_node_that_preempts_in_vain_leaves_what_it_released() -> None:
    """The lot before it has no GPUs yet: it must not get those of a job that goes on."""
    fixed = {"preemptible": False, "cpus": 0, "memory_mib": 0}
    late = {"policy_state": {"queue": 1, "since": 7.0}, "cpus": 0, "memory_mib": 0}
    runs = [
        make_running(make_share(1, range(4), cpus=0, memory_mib=0), attempt_id=1, gpus=4, **late),
        make_running(make_share(1, range(4, 7), cpus=0, memory_mib=0), attempt_id=2, gpus=3, **fixed),
        make_running(make_share(2, range(4), cpus=0, memory_mib=0), attempt_id=3, gpus=4, **late),
        make_running(make_share(2, range(4, 7), cpus=0, memory_mib=0), attempt_id=4, gpus=3, **fixed),
    ]
    jobs = [lot(1, 2, submitted_at=1.0), lot(2, 6, submitted_at=2.0, locality=Locality.NODE)]
    vcs = [make_vc(quotas={"A100": 16})]  # so that the second job tries to preempt before it looks for room
    world = make_snapshot(nodes=[make_node(1), make_node(2)], waiting=jobs, running=runs, vcs=vcs)
    plan = decide(world, CycleConfig(policy="tiresias"))
    assert [(place.job_id, len(place.allocations)) for place in plan.places] == [(1, 2)]
    assert plan.preempts == ()
