"""Optimus gives each GPU to the job that it helps most, and moves no job of unchanged size."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.cycle import CycleConfig, compose, decide
from scheduler.model import Job, Locality, Running, Snapshot, VirtualCluster
from scheduler.model.invariants import awaits_preemption, check
from scheduler.model.lifecycle import HoldReason
from scheduler.model.plan import Plan, apply
from scheduler.model.request import ElasticRange, Over
from scheduler.policies.optimus import Optimus
from tests.profiles import examples
from tests.unit.scheduler.factories import NOW, make_job, make_node, make_running, make_share, make_snapshot, make_vc

PERFECT = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)
POOR = (1.0, 1.1, 1.15, 1.15)


def elastic(job_id: int, remaining_s: float, speeds: Sequence[float] = PERFECT, **fields: Any) -> Job:
    """A job of variable size, up to the last known speed."""
    asked = {"gpus": 1, "split": True, "cpus": 0, "memory_mib": 0, "checkpoints": True} | fields
    return make_job(job_id, remaining_s=remaining_s, speeds=tuple(speeds), max_gpus=len(speeds), **asked)


def running(job: Job, node_id: int, indexes: Sequence[int]) -> Running:
    share = make_share(node_id, indexes, cpus=0, memory_mib=0)
    return make_running(share, attempt_id=job.id, job=job, ran_s=0.0)


def config(**params: Any) -> CycleConfig:
    return CycleConfig(policy="optimus", policy_params=params)


def carried_out(world: Snapshot) -> Snapshot:
    """The world after a decision, before any preempted job has stopped."""
    plan = decide(world, config())
    return apply(world, plan, awaiting=awaits_preemption(world, plan, compose(config()).admission))


def sizes(world: Snapshot, plan: Plan) -> dict[int, int]:
    """The GPUs of each job after the plan is applied and the preempted jobs have stopped."""
    gone = {preempt.job_id for preempt in plan.preempts}
    after = {run.job.id: run.gpus for run in world.running if run.job.id not in gone}
    return after | {p.job_id: sum(len(share.gpu_ids) for share in p.allocations) for p in plan.places}


# Pool of eight GPUs; the expected sizes are worked out by hand in the comments.
SIZES: dict[str, tuple[list[Job], dict[int, int]]] = {
    "a job alone grows to the last size that helps": ([elastic(1, 100, (1.0, 1.5, 1.5, 1.6))], {1: 2}),
    "equals get equal parts": ([elastic(1, 100), elastic(2, 100)], {1: 4, 2: 4}),
    # Gains of job 1 (800 s): 400, 133, 67, 40, 27, 19; of job 2 (80 s): 40, 13. The tie at 40 goes to job 1.
    "the longer job gets more": ([elastic(1, 800), elastic(2, 80)], {1: 6, 2: 2}),
    # Job 1's gains: 91, 40, 0; job 2's: 50, 17, 8, 5, 3, 2.
    "what does not scale gets little": ([elastic(1, 1000, POOR), elastic(2, 100)], {1: 3, 2: 5}),
    "each job gets one first": ([elastic(n, 10.0**n) for n in range(1, 9)], dict.fromkeys(range(1, 9), 1)),
    "who comes too late gets none": ([elastic(n, 10.0**n) for n in range(1, 10)], dict.fromkeys(range(1, 9), 1)),
    "a higher priority is ahead of an earlier one": (
        [*(elastic(n, 10) for n in range(1, 9)), elastic(9, 10, priority=1)],
        dict.fromkeys([9, *range(1, 8)], 1),
    ),
    "a job of one size takes part with it": ([make_job(1, gpus=6), elastic(2, 100)], {1: 6, 2: 2}),
    "so does one without a prediction": (
        [replace(elastic(1, 0, gpus=3), remaining_s=None), elastic(2, 100)],
        {1: 3, 2: 5},
    ),
    "a job of one size that is too large waits": ([elastic(1, 9), make_job(2, gpus=8), elastic(3, 9)], {1: 4, 3: 4}),
    "a prediction for what it asks for is one for all sizes": (
        # 100 s on four GPUs are 400 s on one, and the other has 400 s on one.
        [elastic(1, 100, gpus=4), elastic(2, 400)],
        {1: 4, 2: 4},
    ),
}


@pytest.mark.parametrize(("jobs", "expected"), SIZES.values(), ids=SIZES)
def test_the_sizes_are_those_of_the_greedy_rule(jobs: list[Job], expected: dict[int, int]) -> None:
    world = make_snapshot(waiting=jobs)
    assert sizes(world, decide(world, config())) == expected


def test_a_job_without_gpus_starts_at_once() -> None:
    world = make_snapshot(waiting=[make_job(1, gpus=0, gpu_type=None), elastic(2, 100)])
    assert sizes(world, decide(world, config())) == {1: 0, 2: 8}


def test_a_running_job_shrinks_for_a_new_one() -> None:
    world = make_snapshot(running=[running(elastic(1, 160), 1, range(8))], waiting=[elastic(2, 100)])
    plan = decide(world, config())
    # Eight GPUs for a minute did 480 s of its 160 s of work: no work is left, so it gets only one GPU.
    assert sizes(world, plan) == {1: 1, 2: 7}
    assert [(preempt.job_id, preempt.for_job_id) for preempt in plan.preempts] == [(1, 1)]


def test_the_first_of_equals_is_ahead_though_sums_were_rounded() -> None:
    # Both have 0.3 s left, but for job 1 that is what three tenths of a second of 0.6 leave over: a bit less than 0.3.
    begun = replace(running(elastic(1, 0.1 + 0.2 + 0.3), 1, [0]), placed_at=NOW - 0.3)
    left_s = begun.remaining_s(NOW)
    assert left_s is not None
    assert left_s < 0.3
    world = make_snapshot(nodes=[make_node(1, gpus=3)], waiting=[elastic(2, 0.3)], running=[begun])
    assert sizes(world, decide(world, config())) == {1: 2, 2: 1}


def test_a_job_of_unchanged_size_keeps_its_gpus() -> None:
    jobs = [running(elastic(1, 1000), 1, (0, 3)), running(elastic(2, 1000), 2, (1, 2))]
    world = make_snapshot(nodes=[make_node(1, gpus=4), make_node(2, gpus=4)], running=jobs, waiting=[elastic(3, 3000)])
    plan = decide(world, config())
    assert sizes(world, plan) == {1: 2, 2: 2, 3: 4}
    assert plan.preempts == ()


def test_the_smallest_is_placed_first_and_each_on_the_roomiest_nodes() -> None:
    nodes = [make_node(1, gpus=2), make_node(2, gpus=4), make_node(3, gpus=3)]
    world = make_snapshot(nodes=nodes, waiting=[elastic(1, 500, PERFECT[:6]), elastic(2, 100, PERFECT[:3])])
    plan = decide(world, config())
    where = {p.job_id: [(one.node_id, len(one.gpu_ids)) for one in p.allocations] for p in plan.places}
    assert where == {2: [(2, 3)], 1: [(3, 3), (1, 2), (2, 1)]}


def test_a_job_of_size_zero_is_preempted_for_the_job_that_takes_its_gpus() -> None:
    low = running(elastic(1, 1000, priority=-1), 1, (0,))
    world = make_snapshot(nodes=[make_node(gpus=1)], running=[low], waiting=[elastic(2, 10)])
    plan = decide(world, config())
    assert sizes(world, plan) == {2: 1}
    assert [(preempt.job_id, preempt.for_job_id) for preempt in plan.preempts] == [(1, 2)]
    assert sizes(apply(world, plan), decide(apply(world, plan), config())).keys() == {
        1
    }  # it stops, job 2 is kept a place


def test_one_that_may_not_be_preempted_keeps_what_it_has() -> None:
    world = make_snapshot(
        running=[running(elastic(1, 1000, preemptible=False), 1, range(6))], waiting=[elastic(2, 1000)]
    )
    assert sizes(world, decide(world, config())) == {1: 6, 2: 2}


def test_no_job_grows_beyond_the_quota_of_its_virtual_cluster() -> None:
    world = make_snapshot(
        waiting=[elastic(1, 9000), elastic(2, 100, vc_id=2)],
        vcs=[make_vc(1, quotas={"A100": 3}), make_vc(2, "speech")],
    )
    assert sizes(world, decide(world, config())) == {1: 3, 2: 5}


def test_a_job_of_one_size_survives_a_lower_quota_until_another_job_needs_its_gpus() -> None:
    runs = [running(make_job(1, gpus=4, cpus=0, memory_mib=0), 1, range(4))]
    nodes, vcs = [make_node(gpus=4)], [make_vc(1, quotas={"A100": 2}), make_vc(2, "speech", {"A100": 4})]
    assert decide(make_snapshot(nodes=nodes, vcs=vcs, running=runs), config()) == Plan((), ())
    beside = [*nodes, make_node(2, gpus=1, gpu_type="V100")]
    others = [make_vc(1, quotas={"A100": 2, "V100": 1}), vcs[1]]
    waiting = [elastic(3, 100, gpu_type="V100")]
    plan = decide(make_snapshot(nodes=beside, vcs=others, running=runs, waiting=waiting), config())
    assert ([place.job_id for place in plan.places], plan.preempts) == ([3], ())
    wanted = make_snapshot(nodes=nodes, vcs=vcs, running=runs, waiting=[elastic(2, 100, vc_id=2)])
    plan = decide(wanted, config())
    assert [(one.job_id, one.for_job_id) for one in plan.preempts] == [(1, 2)]


def test_who_goes_for_the_quota_of_another_goes_for_that_one() -> None:
    # The new job fits into the second node and takes no job's GPUs, but quota allows only three.
    runs = [running(make_job(1, gpus=3, cpus=0, memory_mib=0), 1, range(3))]
    waiting = [make_job(2, gpus=2, cpus=0, memory_mib=0, priority=1)]
    nodes, vcs = [make_node(1, gpus=4), make_node(2, gpus=2)], [make_vc(1, quotas={"A100": 3})]
    plan = decide(make_snapshot(nodes=nodes, vcs=vcs, running=runs, waiting=waiting), config())
    assert [(place.job_id, place.allocations[0].node_id) for place in plan.places] == [(2, 2)]
    assert [(one.job_id, one.for_job_id) for one in plan.preempts] == [(1, 2)]
    assert plan.preempts[0].detail == "its quota goes to jobs of its virtual cluster ahead of it"


def test_who_goes_for_the_memory_of_its_node_goes_for_that_one() -> None:
    # Job 1 has no quota any more, and would go on except for job 2, which takes the other GPU, and memory of job 1.
    share = make_share(1, [1], cpus=0, memory_mib=1000)
    runs = [make_running(share, attempt_id=1, job=make_job(1, cpus=0, memory_mib=1000), ran_s=0.0)]
    waiting = [make_job(2, vc_id=2, cpus=0, memory_mib=600)]
    nodes, vcs = [make_node(gpus=2, memory_mib=1000)], [make_vc(1, quotas={"A100": 0}), make_vc(2, "speech")]
    assert decide(make_snapshot(nodes=nodes, vcs=vcs, running=runs), config()).preempts == ()
    (gone,) = decide(make_snapshot(nodes=nodes, vcs=vcs, running=runs, waiting=waiting), config()).preempts
    assert (gone.job_id, gone.for_job_id) == (1, 2)
    assert gone.detail == "CPUs or memory of its node go to jobs ahead of it"


def test_no_job_is_stopped_for_one_that_shrinks() -> None:
    runs = [
        running(elastic(1, 1000), 1, range(4)),
        running(make_job(2, gpus=2, cpus=0, memory_mib=0), 2, range(2)),
    ]
    nodes = [make_node(1, gpus=4), make_node(2, gpus=2)]
    world = make_snapshot(nodes=nodes, vcs=[make_vc(1, quotas={"A100": 2})], running=runs)
    assert [(one.job_id, one.for_job_id) for one in decide(world, config()).preempts] == [(1, 1)]


@pytest.fixture
def making_room() -> Snapshot:
    """A full pool in which job 2 shrinks for job 4; job 3 is of another virtual cluster."""
    vcs = [make_vc(1, quotas={"A100": 8}), make_vc(2, "speech", {"A100": 4})]
    runs = [running(elastic(n, 1000, vc_id=1 + (n == 3)), n, range(4)) for n in (1, 2, 3)]
    nodes = [make_node(n, gpus=4) for n in (1, 2, 3)]
    world = make_snapshot(nodes=nodes, vcs=vcs, running=runs, waiting=[elastic(4, 10)])
    plan = decide(world, config())
    assert sizes(world, plan) == {1: 4, 2: 3, 3: 4, 4: 1}
    return apply(world, plan)


def test_no_other_shrinks_while_one_of_its_virtual_cluster_makes_room(making_room: Snapshot) -> None:
    # Both the GPUs still held by job 2 and the one reserved for job 4 count: nine of eight.
    assert decide(making_room, config()).preempts == ()
    world = replace(making_room, waiting=(*making_room.waiting, elastic(5, 10, vc_id=2)))
    assert [(one.job_id, one.for_job_id) for one in decide(world, config()).preempts] == [(3, 3)]


def test_another_shrinks_meanwhile_if_the_quota_is_enough_for_all_of_them(making_room: Snapshot) -> None:
    vcs = (make_vc(1, quotas={"A100": 10}), making_room.vcs[1])
    runs = tuple(replace(run, job=replace(run.job, preemptible=run.job.id != 3)) for run in making_room.running)
    world = replace(making_room, vcs=vcs, running=runs, waiting=(*making_room.waiting, elastic(5, 10)))
    assert [(one.job_id, one.for_job_id) for one in decide(world, config()).preempts] == [(1, 1)]


def test_no_other_shrinks_while_one_shrinks_to_a_lower_quota() -> None:
    nodes = [make_node(n, gpus=4) for n in (1, 2)]
    runs = [running(elastic(n, 1000 * n), n, range(4)) for n in (1, 2)]
    world = make_snapshot(nodes=nodes, vcs=[make_vc(1, quotas={"A100": 7})], running=runs)
    plan = decide(world, config())
    assert [one.job_id for one in plan.preempts] == [1]
    assert decide(apply(world, plan), config()).preempts == ()


def test_a_job_that_waits_for_stopping_jobs_gets_a_reason(making_room: Snapshot) -> None:
    vcs = (*making_room.vcs, make_vc(3, "maps", {"A100": 1}))
    runs = tuple(replace(run, job=replace(run.job, preemptible=run.job.id != 3)) for run in making_room.running)
    waiting = (*making_room.waiting, elastic(5, 10, vc_id=3, priority=1))
    said = {
        one.job_id: one.detail
        for one in decide(replace(making_room, vcs=vcs, running=runs, waiting=waiting), config()).holds
    }
    keeps = "or with one that keeps its size until others have stopped"
    assert said[5] == f"each A100 that this job may use is with a job ahead of it, {keeps}"


def test_a_job_that_must_stay_on_one_node_does_not_outgrow_it() -> None:
    world = make_snapshot(
        nodes=[make_node(1, gpus=4), make_node(2, gpus=4)], waiting=[elastic(1, 9000, locality=Locality.NODE)]
    )
    assert sizes(world, decide(world, config())) == {1: 4}


def test_a_job_that_takes_any_type_gets_the_one_with_the_most_left() -> None:
    world = make_snapshot(
        nodes=[make_node(1, gpus=2), make_node(2, gpus=4, gpu_type="V100")], waiting=[elastic(1, 100, gpu_type=None)]
    )
    plan = decide(world, config())
    assert [share.node_id for share in plan.places[0].allocations] == [2]
    assert sizes(world, plan) == {1: 4}


def test_a_job_that_takes_any_type_gets_one_that_its_quota_allows() -> None:
    nodes = [make_node(1, gpus=2), make_node(2, gpus=4, gpu_type="V100")]
    vcs = [make_vc(1, quotas={"A100": 1})]
    world = make_snapshot(nodes=nodes, vcs=vcs, waiting=[elastic(1, 100, gpu_type=None)])
    assert sizes(world, decide(world, config())) == {1: 1}


def whole(job_id: int, remaining_s: float, most: int = 4, **fields: Any) -> Job:
    """A job of variable size whose ranks each stay on one node."""
    return elastic(job_id, remaining_s, PERFECT[:most], split=False, **fields)


def test_a_rank_grows_within_its_node_and_its_cpus_grow_with_it() -> None:
    world = make_snapshot(
        nodes=[make_node(1, gpus=4), make_node(2, gpus=4)], waiting=[whole(1, 9000, 8, gpus=2, cpus=3, memory_mib=10)]
    )
    plan = decide(world, config())
    assert sizes(world, plan) == {1: 4}
    assert [(share.cpus, share.memory_mib) for share in plan.places[0].allocations] == [(6, 20)]


def test_the_ranks_of_a_gang_grow_together() -> None:
    nodes = [make_node(1, gpus=4), make_node(2, gpus=3)]
    world = make_snapshot(nodes=nodes, waiting=[whole(1, 9000, 8, nodes=2)])
    plan = decide(world, config())
    assert [len(share.gpu_ids) for share in plan.places[0].allocations] == [3, 3]


GANGS: dict[str, tuple[list[int], dict[str, Any], list[int]]] = {
    "as few nodes as possible": ([4, 4], {}, [4, 4]),
    "one node while that is enough": ([4, 8], {}, [8]),
    "equally many GPUs on each node": ([4, 3], {}, [3, 3]),
    "more nodes where none has the GPUs": ([2, 2, 2, 2], {"speeds": PERFECT[:6]}, [2, 2, 2]),
    "no more than one node, where it must stay on one": ([4, 4], {"locality": Locality.NODE}, [4]),
    "fewer nodes than it asks for": ([4, 4], {"nodes": 2, "speeds": PERFECT[:3]}, [3]),
}


@pytest.mark.parametrize(("nodes", "fields", "expected"), GANGS.values(), ids=GANGS)
def test_a_gang_of_variable_size_grows_over_nodes(nodes: list[int], fields: Any, expected: list[int]) -> None:
    job = elastic(1, 9000, **{"split": False, "over": Over.GANG, **fields})
    pool = [make_node(node_id, gpus=gpus) for node_id, gpus in enumerate(nodes, start=1)]
    plan = decide(make_snapshot(nodes=pool, waiting=[job]), config())
    assert [len(share.gpu_ids) for share in plan.places[0].allocations] == expected


def test_a_gang_of_variable_size_shrinks_to_one_node_and_its_quota_counts_all_its_nodes() -> None:
    job = elastic(1, 9000, split=False, over=Over.GANG)
    nodes = [make_node(n, gpus=4) for n in (1, 2)]
    shares = [make_share(n, range(4), rank, cpus=0, memory_mib=0) for rank, n in enumerate((1, 2))]
    run = make_running(*shares, attempt_id=1, job=job, ran_s=0.0)
    other = make_job(2, gpus=4, cpus=0, memory_mib=0)
    world = make_snapshot(nodes=nodes, running=[run], waiting=[other])
    assert sizes(world, decide(world, config())) == {1: 4, 2: 4}
    small = make_snapshot(nodes=nodes, running=[run], waiting=[elastic(3, 9)], vcs=[make_vc(quotas={"A100": 6})])
    assert sizes(small, decide(small, config())) == {1: 4, 3: 2}


def test_a_job_whose_nodes_have_no_room_for_its_size_gets_the_next_smaller_one() -> None:
    nodes = [make_node(n, gpus=2) for n in (1, 2)] + [make_node(3, gpus=8)]
    held = [running(make_job(9, gpus=7, cpus=0, memory_mib=0, preemptible=False), 3, range(7))]
    world = make_snapshot(nodes=nodes, running=held, waiting=[whole(1, 9000, 8)])
    assert sizes(world, decide(world, config())) == {9: 7, 1: 2}


def test_a_job_that_cannot_grow_where_there_is_room_stays() -> None:
    nodes = [make_node(n, gpus=2) for n in (1, 2)]
    world = make_snapshot(nodes=nodes, running=[running(whole(1, 9000), 1, range(2))])
    plan = decide(world, config())
    assert (plan.places, plan.preempts) == ((), ())


def test_it_shrinks_for_one_that_waits_and_no_further_than_to_its_least_size() -> None:
    least = whole(1, 9000)
    least = replace(least, request=replace(least.request, elastic=ElasticRange(2, 4)))
    world = make_snapshot(nodes=[make_node(1, gpus=4)], running=[running(least, 1, range(4))], waiting=[whole(2, 1e6)])
    assert sizes(world, decide(world, config())) == {1: 2, 2: 2}


def test_a_job_without_gpus_gets_a_reason() -> None:
    world = make_snapshot(nodes=[make_node(gpus=1)], waiting=[elastic(1, 10), elastic(2, 10)])
    hold = decide(world, config()).holds[0]
    assert (hold.job_id, hold.reason) == (2, HoldReason.NO_FREE_GPUS)
    assert "ahead" in hold.detail


def test_a_gpu_that_saves_too_little_stays_free() -> None:
    world = make_snapshot(waiting=[elastic(1, 100)])
    assert sizes(world, decide(world, config(min_gain_s=16))) == {1: 3}  # the third saves 16.7 s, the fourth 8.3 s


def test_a_running_job_does_not_restart_for_less_than_a_restart_costs() -> None:
    # Two GPUs for a minute leave 200 s of one GPU's work: on eight GPUs it would save 75 s.
    world = make_snapshot(running=[running(elastic(1, 320), 1, (0, 1))])
    assert sizes(world, decide(world, config(restart_s=74))) == {1: 8}
    assert sizes(world, decide(world, config(restart_s=75))) == {1: 2}


def test_what_one_does_not_take_another_need_not_give() -> None:
    # After a minute 70 s and 500 s of one GPU's work are left: the sixth GPU would save job 2 less than 17 s.
    jobs = [running(elastic(1, 250), 1, (0, 1, 2)), running(elastic(2, 800), 1, (3, 4, 5, 6, 7))]
    world = make_snapshot(running=jobs)
    assert sizes(world, decide(world, config())) == {1: 2, 2: 6}
    assert decide(world, config(restart_s=17)).preempts == ()


def test_a_cycle_moves_no_more_jobs_than_it_may_place() -> None:
    world = make_snapshot(waiting=[elastic(n, 100) for n in (1, 2, 3)])
    plan = decide(world, replace(config(), max_places=2))
    assert len(plan.places) == 2
    assert plan.holds[0].reason is HoldReason.CYCLE_LIMIT


CHANGES = {
    "one that runs is looked at again at the next full minute": (elastic(1, 9), True, {}, NOW - NOW % 60 + 60),
    "never, if told so": (elastic(1, 9), True, {"every_s": None}, None),
    "one that waits is not": (elastic(1, 9), False, {}, None),
    "nor one of one size": (make_job(1), True, {}, None),
}


@pytest.mark.parametrize(("job", "runs", "params", "expected"), CHANGES.values(), ids=CHANGES)
def test_sizes_are_looked_at_again(job: Job, runs: bool, params: Any, expected: float | None) -> None:
    run = running(job, 1, (0,)) if runs else None
    assert Optimus(**params).next_change(job, run, NOW) == expected


@st.composite
def elastic_worlds(draw: st.DrawFn) -> Snapshot:
    """Three nodes, jobs of all kinds, some of them running at a size from an earlier decision.

    A later decision may have to stop some of them. Quotas may have changed since.
    """
    nodes = [make_node(1, gpus=4, rack="r1"), make_node(2, gpus=3, rack="r2"), make_node(3, gpus=2, gpu_type="V100")]
    quotas = st.integers(0, 9).map(lambda gpus: {"A100": gpus, "V100": 9})

    def job(job_id: int) -> Job:
        common = {
            "vc_id": draw(st.integers(1, 2)),
            "priority": draw(st.integers(0, 1)),
            "preemptible": draw(st.integers(0, 4)) > 0,
            "gpu_type": draw(st.sampled_from(["A100", None])),
        }
        if draw(st.integers(0, 3)) == 0:
            return make_job(job_id, gpus=draw(st.integers(0, 3)), nodes=draw(st.integers(1, 2)), **common)
        speeds = sorted(draw(st.lists(st.floats(1, 8), min_size=1, max_size=8)))
        left_s, locality = draw(st.floats(0, 1e6)), draw(st.sampled_from([Locality.ANY, Locality.ANY, Locality.NODE]))
        cpus = draw(st.sampled_from([0, 0, 1, 20]))
        gpus, split = draw(st.integers(1, 4)), draw(st.booleans())
        ranks = 1 if split or locality is Locality.NODE else draw(st.integers(1, 2))
        common["over"] = Over.NODE if split else draw(st.sampled_from(Over))
        return elastic(
            job_id, left_s, speeds, gpus=gpus, split=split, nodes=ranks, locality=locality, cpus=cpus, **common
        )

    def vcs() -> tuple[VirtualCluster, ...]:
        return (make_vc(1, "a", draw(quotas)), make_vc(2, "b", draw(quotas)))

    world = make_snapshot(nodes=nodes)
    numbers = iter(range(1, 100))
    for decided in range(draw(st.integers(1, 2))):
        waiting = [job(next(numbers)) for _ in range(draw(st.integers(0, 5)))]
        world = carried_out(replace(world, now=NOW + 50 * decided, vcs=vcs(), waiting=(*world.waiting, *waiting)))
    waiting = [job(next(numbers)) for _ in range(4)]
    return replace(world, now=NOW + 100, vcs=vcs(), waiting=(*world.waiting, *waiting))


@settings(max_examples=examples(200))
@given(elastic_worlds(), st.sampled_from([1, 3, 256]), st.sampled_from([0, 100]))
def test_a_plan_never_breaks_the_law(world: Snapshot, max_places: int, restart_s: float) -> None:
    chosen = replace(config(restart_s=restart_s), max_places=max_places)
    plan = decide(world, chosen)
    assert check(world, plan, compose(chosen).admission) == ()
    answered = [place.job_id for place in plan.places if place.job_id in world.waiting_by_id]
    assert sorted(answered + [hold.job_id for hold in plan.holds]) == sorted(world.waiting_by_id)
    kept = {one.job_id for one in world.reservations}  # the cycle that reserved these places counted them
    assert len(plan.places) <= max(max_places, sum(place.job_id in kept for place in plan.places))


@given(st.lists(st.tuples(st.floats(0.1, 1e5), st.lists(st.floats(0.1, 2), min_size=1, max_size=6)), max_size=12))
def test_the_heap_gives_what_a_search_for_the_largest_gain_gives(drawn: list[tuple[float, list[float]]]) -> None:
    jobs = []
    for number, (left_s, steps) in enumerate(drawn, start=1):
        speeds = [sum(steps[: k + 1]) / steps[0] for k in range(len(steps))]
        jobs.append(elastic(number, left_s, speeds))
    expected = [1 if position < 8 else 0 for position in range(len(jobs))]
    while sum(expected) < 8:
        gains = [
            job.remaining_s / job.speeds[k - 1] - job.remaining_s / job.speeds[k]
            if job.remaining_s is not None and 0 < k < job.request.max_gpus
            else 0.0
            for job, k in zip(jobs, expected, strict=True)
        ]
        if not gains or max(gains) <= 0:
            break
        # The first of the gains that are equal to the microsecond.
        worth = [round(gain, 6) if gain > 0 else -1.0 for gain in gains]
        expected[worth.index(max(worth))] += 1
    world = make_snapshot(waiting=jobs)
    assert sizes(world, decide(world, config())) == {n: size for n, size in enumerate(expected, start=1) if size}
