"""The authors' page: what a policy reads through a cycle, what it writes, and what it is refused."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.admission import ADMISSIONS
from scheduler.authoring import AssignmentPolicy, Config, Cycle, CyclePolicy, PolicyError
from scheduler.engine.cycle import Profile, decide_on
from scheduler.engine.state import SchedulerState
from scheduler.model import KnownRate, Locality, PoolState, Rate, Snapshot
from scheduler.model.codec import from_json, to_json
from scheduler.model.invariants import check
from scheduler.model.lifecycle import HoldReason
from scheduler.model.plan import Plan, apply, release
from scheduler.model.request import Over
from scheduler.placement import PLACEMENTS
from tests.unit.scheduler.factories import NOW, make_job, make_node, make_running, make_share, make_snapshot, make_vc


def plan_of(policy: CyclePolicy, world: Snapshot, *, max_places: int = 256) -> Plan:
    """The plan of a policy, which must be valid."""
    profile = Profile(policy, PLACEMENTS.make("consolidate", {}), ADMISSIONS.make("quota", {}), policy_name="mine")
    plan = decide_on(SchedulerState(world), profile, max_places=max_places)
    assert not check(world, plan, profile.admission)
    return plan


def deciding(act: Callable[[Cycle], object]) -> CyclePolicy:
    """A policy that does this in its cycle."""

    class Mine(CyclePolicy):
        def decide(self, cycle: Cycle) -> None:
            act(cycle)

    return Mine()


def placed(plan: Plan) -> set[int]:
    return {place.job_id for place in plan.places}


def test_a_cycle_tells_jobs_supply_and_usage() -> None:
    run = make_running(make_share(1, (0, 1)))
    early = make_job(3, eligible_at=NOW + 60)
    world = make_snapshot(waiting=[make_job(1), make_job(2, gpus=16), early], running=[run])
    seen: dict[str, Any] = {}

    def look(cycle: Cycle) -> None:
        seen["waiting"] = [job.id for job in cycle.waiting()]
        seen["running"] = [run.job.id for run in cycle.running()]
        seen["supply"] = cycle.supply()
        cycle.place(cycle.waiting()[0])
        seen["usage"] = [dict(cycle.usage(level)) for level in ("tenant", "vc", "owner")]
        seen["jobs"] = cycle.usage("job")

    plan_of(deciding(look), world)
    assert seen["waiting"] == [1]  # job 2 never fits, job 3 waits for its retry
    assert seen["running"] == [run.job.id]
    assert seen["supply"] == {"A100": 8}
    assert seen["usage"] == [{1: {"A100": 3}}] * 3
    assert seen["jobs"] == {1: {"A100": 1}, run.job.id: {"A100": 2}}


def test_configs_are_the_choices_that_fit_the_pool_and_each_size_of_an_elastic_job() -> None:
    nodes = [make_node(1), make_node(2, gpu_type="V100", gpus=4)]
    either = make_job(1, gpus=2, gpu_type=None, gpu_types=("V100", "A100", "H100"))
    elastic = make_job(2, gpus=2, max_gpus=3)
    large = make_job(3, gpus=8, gpu_type=None, gpu_types=("V100", "A100"))
    found: dict[int, Any] = {}
    plan_of(
        deciding(lambda cycle: found.update({job.id: list(cycle.configs(job)) for job in cycle.waiting()})),
        make_snapshot(nodes=nodes, waiting=[either, elastic, large]),
    )
    assert found[1] == [Config("V100", 2), Config("A100", 2)]
    assert found[2] == [Config("A100", 2), Config("A100", 1), Config("A100", 3)]
    assert found[3] == [Config("A100", 8)]


def test_the_sizes_over_a_gang_are_those_that_equal_parts_of_nodes_make_up() -> None:
    job = make_job(1, gpus=2, max_gpus=9, over=Over.GANG)
    world = make_snapshot(nodes=[make_node(1, gpus=4), make_node(2, gpus=3)], waiting=[job])
    found: list[Config] = []
    plan = plan_of(
        deciding(lambda cycle: (found.extend(cycle.configs(job)), cycle.place(job, [Config("A100", 4, nodes=2)]))),
        world,
    )
    assert [config.gpus for config in found] == [2, 1, 3, 4, 6]
    assert [len(share.gpu_ids) for share in plan.places[0].allocations] == [2, 2]


def test_a_rate_is_known_for_the_configuration_that_was_measured() -> None:
    job = make_job(1, gpus=2, rates=(KnownRate("A100", 2, Rate(410.0, 30.0, "measured")),))
    rates: list[Rate | None] = []

    def look(cycle: Cycle) -> None:
        rates.extend(cycle.rate(job, Config(kind, gpus)) for kind, gpus in (("A100", 2), ("A100", 4), ("V100", 2)))

    plan_of(deciding(look), make_snapshot(waiting=[job]))
    assert rates == [Rate(410.0, 30.0, "measured"), None, None]


def test_a_job_is_placed_in_the_first_configuration_that_fits() -> None:
    nodes = [make_node(1, gpus=1, gpu_type="V100"), make_node(2)]
    job = make_job(1, gpus=2, gpu_type=None, gpu_types=("A100", "V100"))
    world = make_snapshot(nodes=[*nodes, make_node(3, gpu_type="V100")], waiting=[job])
    plan = plan_of(deciding(lambda cycle: cycle.place(job, [Config("V100", 2), Config("A100", 2)])), world)
    (place,) = plan.places
    assert place.allocations[0].node_id == 3


def test_as_few_victims_stop_as_the_job_needs() -> None:
    runs = [make_running(make_share(1, range(4 * n, 4 * n + 4)), attempt_id=n + 1) for n in range(2)]
    world = make_snapshot(waiting=[make_job(1, gpus=3)], running=runs)
    plan = plan_of(deciding(lambda cycle: cycle.place(cycle.waiting()[0], victims=cycle.running())), world)
    assert placed(plan) == {1}
    assert [(one.job_id, one.for_job_id) for one in plan.preempts] == [(1001, 1)]


def test_a_lease_ends_for_no_other_job() -> None:
    world = make_snapshot(running=[make_running(make_share(1, (0,)))])
    plan = plan_of(deciding(lambda cycle: cycle.preempt(cycle.running()[0], "its lease has ended")), world)
    (preempt,) = plan.preempts
    assert (preempt.job_id, preempt.for_job_id, preempt.detail) == (1001, None, "its lease has ended")
    assert apply(world, plan).running[0].stopping
    assert from_json(Plan, to_json(plan)) == plan


def test_an_attempt_leaves_no_trace_unless_it_is_kept() -> None:
    runs = [make_running(make_share(1, range(8)))]
    world = make_snapshot(waiting=[make_job(1, gpus=8), make_job(2, gpus=8)], running=runs)

    def act(cycle: Cycle) -> None:
        with cycle.attempt():
            assert cycle.place(world.waiting[0], victims=cycle.running())
            cycle.note(world.waiting[1], {"tried": 1.0})
        with contextlib.suppress(ZeroDivisionError), cycle.attempt():
            cycle.preempt(cycle.running()[0], "its lease has ended")
            raise ZeroDivisionError
        with cycle.attempt() as attempt:
            assert cycle.place(world.waiting[1], victims=cycle.running())
            attempt.keep()

    plan = plan_of(deciding(act), world)
    assert placed(plan) == {2}
    assert [(one.job_id, one.for_job_id) for one in plan.preempts] == [(1001, 2)]
    assert not plan.notes


@given(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=6), st.integers(0, 3))
def test_what_follows_an_attempt_is_as_if_it_had_not_been(sizes: list[int], held: int) -> None:
    runs = [make_running(make_share(1 + n, range(3)), attempt_id=n + 1) for n in range(held)]
    jobs = [make_job(n + 1, gpus=gpus, cpus=gpus, split=gpus == 3) for n, gpus in enumerate(sizes)]
    world = make_snapshot(nodes=[make_node(n, gpus=4, cpus=6) for n in (1, 2, 3)], waiting=jobs, running=runs)

    def place_all(cycle: Cycle) -> None:
        for job in cycle.waiting():
            cycle.place(job)

    def try_first(cycle: Cycle) -> None:
        with cycle.attempt():
            for job in reversed(cycle.waiting()):
                cycle.place(job, victims=cycle.running())
        place_all(cycle)

    assert plan_of(deciding(try_first), world) == plan_of(deciding(place_all), world)


class Choosing(AssignmentPolicy):
    def __init__(self, chosen: Mapping[int, Config | None]) -> None:
        self.chosen = chosen

    def choose(self, cycle: Cycle) -> Mapping[int, Config | None]:
        return self.chosen


def test_an_assignment_moves_starts_and_stops_jobs_and_leaves_the_unchanged_where_they_are() -> None:
    runs = [
        make_running(make_share(1, (0, 1)), attempt_id=1),  # unchanged
        make_running(make_share(1, (2,)), attempt_id=2, max_gpus=4),  # grows
        make_running(make_share(1, range(3, 8)), attempt_id=3),  # stops
    ]
    world = make_snapshot(waiting=[make_job(1, gpus=2)], running=runs)
    chosen = {1001: Config("A100", 2), 1002: Config("A100", 4), 1003: None, 1: Config("A100", 2)}
    plan = plan_of(Choosing(chosen), world)
    assert {place.job_id: sum(len(one.gpu_ids) for one in place.allocations) for place in plan.places} == {
        1002: 4,
        1: 2,
    }
    assert [(one.job_id, one.for_job_id) for one in plan.preempts] == [(1002, 1002), (1003, None)]
    assert plan.wake_at == NOW + AssignmentPolicy.every_s


def test_a_job_gets_the_batch_size_of_its_configuration_and_moves_for_another_one() -> None:
    job = make_job(1, gpus=2, rates=(KnownRate("A100", 2, Rate(410.0, 30.0, "measured")),))
    world = make_snapshot(waiting=[job])
    plan = plan_of(Choosing({1: Config("A100", 2, batch=64)}), world)
    assert plan.places[0].given == (("MUSTER_BATCH_SIZE", "64"),)
    assert from_json(Plan, to_json(plan)) == plan
    world = apply(world, plan)
    seen: list[object] = []

    def look(cycle: Cycle) -> None:
        (run,) = cycle.running()
        seen.extend((str(cycle.held(run)), cycle.rate(job, cycle.held(run))))

    plan_of(deciding(look), world)
    assert seen == ["A100:2 with batch size 64", None]
    assert not plan_of(Choosing({1: Config("A100", 2, batch=64)}), world).preempts
    plan = plan_of(Choosing({1: Config("A100", 2, batch=128)}), world)
    assert plan.preempts[0].detail.endswith("changes from A100:2 with batch size 64 to A100:2 with batch size 128")
    reserved = apply(world, plan)
    (waits,) = reserved.reservations
    assert waits.given == (("MUSTER_BATCH_SIZE", "128"),)
    assert plan_of(deciding(lambda _: None), release(reserved, [1])).places[0].given == waits.given


@pytest.mark.parametrize("split", [False, True])
def test_a_job_is_given_the_values_of_the_policy_beside_its_batch_size(split: bool) -> None:
    job = make_job(1, gpus=2, cpus=0, memory_mib=0, split=split)

    def act(cycle: Cycle) -> None:
        cycle.give(job, {"NCCL_ALGO": "Ring", "A": ""})
        cycle.place(job, [Config("A100", 2, batch=8)])

    (place,) = plan_of(deciding(act), make_snapshot(waiting=[job])).places
    assert place.given == (("A", ""), ("MUSTER_BATCH_SIZE", "8"), ("NCCL_ALGO", "Ring"))


def test_an_assignment_is_not_cut_by_the_limit_of_placements() -> None:
    jobs = [make_job(n, gpus=1) for n in range(1, 9)]
    plan = plan_of(Choosing({job.id: Config("A100", 1) for job in jobs}), make_snapshot(waiting=jobs), max_places=2)
    assert len(plan.places) == 8


@pytest.mark.parametrize("atomic", [True, False])
def test_an_atomic_assignment_gives_all_or_nothing(atomic: bool) -> None:
    jobs = [make_job(1, gpus=5), make_job(2, gpus=4)]
    missed: list[frozenset[int]] = []
    act = deciding(
        lambda cycle: missed.append(cycle.assign({1: Config("A100", 5), 2: Config("A100", 4)}, atomic=atomic))
    )
    plan = plan_of(act, make_snapshot(waiting=jobs))
    assert missed == [frozenset({2})]
    assert placed(plan) == (set() if atomic else {1})


def test_a_running_job_that_finds_no_place_keeps_its_gpus_unless_others_have_them() -> None:
    runs = [make_running(make_share(1, (0, 1)), attempt_id=1, max_gpus=8)]
    fixed = make_running(make_share(1, range(2, 8)), attempt_id=2, preemptible=False)
    plan = plan_of(Choosing({1001: Config("A100", 4)}), make_snapshot(running=[*runs, fixed]))
    assert not plan.places
    assert not plan.preempts


def test_the_owner_reads_the_words_of_the_policy() -> None:
    job = make_job(1)
    plan = plan_of(deciding(lambda cycle: cycle.pend(job, "it is not its turn")), make_snapshot(waiting=[job]))
    (hold,) = plan.holds
    assert (hold.reason, hold.detail) == (HoldReason.POLICY, "it is not its turn")


def test_a_pool_state_comes_back_in_the_version_that_wrote_it() -> None:
    states: list[Mapping[str, Any] | None] = []

    class Counting(CyclePolicy):
        def decide(self, cycle: Cycle) -> None:
            states.append(cycle.state)
            cycle.remember({"cycles": (cycle.state or {}).get("cycles", 0) + 1})

    class Newer(Counting):
        state_version = 2

    world = make_snapshot()
    for policy in (Counting(), Counting(), Newer()):
        world = apply(world, plan_of(policy, world))
    assert states == [None, {"cycles": 1}, None]
    assert world.pool_state == PoolState("mine", 2, {"cycles": 1})


def test_the_earliest_wish_to_be_woken_counts() -> None:
    def act(cycle: Cycle) -> None:
        for n in range(1000, 0, -1):
            cycle.wake_at(cycle.now + n)

    assert plan_of(deciding(act), make_snapshot()).wake_at == NOW + 1


REFUSED: Mapping[str, tuple[Callable[[Cycle], object], str]] = {
    "an unknown job": (lambda cycle: cycle.assign({77: Config("A100", 1)}), "no job 77"),
    "a size outside the request": (lambda cycle: cycle.assign({1: Config("A100", 3)}), "job 1 accepts A100:2"),
    "a type outside the request": (lambda cycle: cycle.place(JOB, [Config("V100", 2)]), "job 1 accepts A100:2"),
    "a locality beyond the request": (
        lambda cycle: cycle.place(NEAR, [Config("A100", 2, Locality.ANY)]),
        "has locality node",
    ),
    "a job that does not wait": (lambda cycle: cycle.place(make_job(1001)), "does not wait"),
    "a second place": (lambda cycle: (cycle.place(JOB), cycle.place(JOB)), "has a place already"),
    "a job that may not stop": (lambda cycle: cycle.preempt(cycle.running()[0], "no"), "may not be preempted"),
    "10 MB of state": (lambda cycle: cycle.remember({"x": "y" * 10_000_000}), "10000009 bytes, more than 1048576"),
    "a state that is no JSON": (lambda cycle: cycle.remember({"x": object()}), "no JSON"),
    "a state that is not a number": (lambda cycle: cycle.remember({"x": math.nan}), "no JSON"),
    "a batch size of 0": (lambda cycle: cycle.assign({1: Config("A100", 2, batch=0)}), "batch size 0 is less than 1"),
    "a value of a name of the platform": (lambda cycle: cycle.give(JOB, {"MUSTER_X": "1"}), "MUSTER_X is set by the"),
    "a value without a name": (lambda cycle: cycle.give(JOB, {"a b": "1"}), "'a b' cannot be the name of a variable"),
    "a value that is no text": (lambda cycle: cycle.give(JOB, {"A": 1}), "the value of A must be text"),  # type: ignore[dict-item]
    "21 values": (lambda cycle: cycle.give(JOB, {f"A{n}": "" for n in range(21)}), "21 variables: at most 20"),
    "to be woken in the past": (lambda cycle: cycle.wake_at(cycle.now), "not a time within a year after now"),
    "to be woken never": (lambda cycle: cycle.wake_at(math.nan), "not a time within a year after now"),
    "to be woken in a million years": (lambda cycle: cycle.wake_at(1e13), "not a time within a year after now"),
}
JOB, NEAR = make_job(1, gpus=2), make_job(2, gpus=2, locality=Locality.NODE)


@pytest.mark.parametrize("wish", REFUSED)
def test_a_policy_is_refused(wish: str) -> None:
    act, words = REFUSED[wish]
    run = replace(make_running(make_share(1, (0,))), job=make_job(1001, preemptible=False))
    with pytest.raises(ValueError, match=words) as refused:
        plan_of(deciding(act), make_snapshot(waiting=[JOB, NEAR], running=[run]))
    assert isinstance(refused.value, PolicyError) or "wake_at" in str(refused.value)


def test_a_virtual_cluster_without_quota_gets_no_place() -> None:
    job = make_job(1, gpus=2)
    world = make_snapshot(waiting=[job], vcs=[make_vc(quotas={"A100": 1})])
    assert not plan_of(deciding(lambda cycle: cycle.place(job)), world).places
