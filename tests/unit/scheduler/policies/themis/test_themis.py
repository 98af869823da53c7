"""The auction as a policy: who bids, what leases do, and what is stopped."""

from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from scheduler.engine.cycle import CycleConfig, compose, decide
from scheduler.engine.wake import next_wake
from scheduler.model import Group, Job, KnownRate, Locality, Rate, Snapshot, Tenant, VirtualCluster
from scheduler.policies.themis.bidders import Candidate, drawn, ranked, shares, split
from scheduler.policies.themis.bidding import Application, Member
from scheduler.workshop import AttemptState
from tests.unit.scheduler import driving
from tests.unit.scheduler.driving import later, running
from tests.unit.scheduler.factories import NOW, make_job, make_node, make_running, make_share, make_snapshot

LEASE_S = 1200.0


def config(**params: Any) -> CycleConfig:
    return CycleConfig(policy="themis", policy_params=params)


def job(job_id: int, gpus: int = 1, *, hours: float | None = 1.0, **fields: Any) -> Job:
    told = None if hours is None else 3600 * hours
    return make_job(job_id, gpus=gpus, **{"expected_s": told, "remaining_s": told, "submitted_at": NOW, **fields})


def sweep(group_id: int, job_ids: Iterable[int], **fields: Any) -> list[Job]:
    return [job(job_id, group_id=group_id, **fields) for job_id in job_ids]


def pool(*jobs: Job, gpus: int = 8, groups: Iterable[int] = ()) -> Snapshot:
    world = make_snapshot(nodes=[make_node(1, gpus=gpus)], waiting=jobs)
    return replace(world, groups=tuple(Group(each, 1, NOW, 0.0, 0.0) for each in groups))


def carried_out(world: Snapshot, chosen: CycleConfig) -> Snapshot:
    """The world after the decisions of this moment, with all jobs begun: their leases count from then on."""
    world = driving.carried_out(world, chosen)
    return replace(world, running=tuple(replace(run, state=AttemptState.RUNNING) for run in world.running))


def state(world: Snapshot) -> Any:
    assert world.pool_state is not None
    return world.pool_state.data


def test_a_sweep_bids_for_all_its_members_and_a_job_for_itself() -> None:
    world = carried_out(pool(*sweep(7, range(1, 9)), job(9, 4), groups=[7]), config(fairness=0))
    assert running(world) == {1, 2, 3, 4, 9}
    (auction,) = state(world)["rounds"]
    assert {key: [row[1] for row in bid["rows"]] for key, bid in auction["bids"].items()} == {
        "sweep 7": [1, 2, 4, 8],
        "job 9": [4],
    }


def test_a_lease_that_is_renewed_restarts_nothing() -> None:
    world = carried_out(pool(job(1, 2), job(2, 2)), config(fairness=0))
    before = {run.job.id: run for run in world.running}
    for _ in range(5):
        world = carried_out(later(world, max(state(world)["lease_ends"].values()) + 1), config(fairness=0))
    assert {run.job.id: run for run in world.running} == before
    assert state(world)["auctions"] == 6


def test_a_lease_ends_by_itself_where_others_are_served_worse() -> None:
    world = carried_out(pool(*(job(number, 8) for number in range(1, 4))), config())
    served = running(world)
    assert len(served) == 1
    kept = carried_out(later(world, NOW + LEASE_S - 1), config())
    assert running(kept) == served
    turned = carried_out(later(world, NOW + LEASE_S + 1), config())
    assert len(running(turned)) == 1
    assert running(turned) != served


def test_of_jobs_without_gpus_the_one_with_most_left_goes_first() -> None:
    # They have waited equally long; job 1 has had GPUs before.
    had = replace(job(1, 8), remaining_s=1800.0, ran_s=1800.0)
    assert running(carried_out(pool(had, job(2, 8)), config())) == {2}


def test_a_job_that_has_not_begun_keeps_its_gpus_although_its_lease_has_ended() -> None:
    world = driving.carried_out(pool(*(job(number, 8) for number in range(1, 4))), config())
    assert running(driving.carried_out(later(world, NOW + LEASE_S + 1), config())) == running(world)


def test_the_pool_wakes_when_a_lease_ends() -> None:
    world, chosen = pool(job(1, 8), job(2, 8)), compose(config(fairness=0))
    plan = decide(world, config(fairness=0))
    assert next_wake(world, plan, chosen.policy, chosen.placement) == pytest.approx(NOW + 60)  # job 2 waits
    assert plan.wake_at == pytest.approx(NOW + 60)
    world = carried_out(world, config(fairness=0))
    plan = decide(later(world, NOW + 61), config(fairness=0))
    assert plan.wake_at == pytest.approx(NOW + LEASE_S)


def test_winners_pay_with_time() -> None:
    world = carried_out(pool(*sweep(1, range(1, 9)), *sweep(2, range(11, 19)), groups=[1, 2]), config(fairness=0))
    ends = state(world)["lease_ends"]
    assert running(world) == {1, 2, 3, 4, 11, 12, 13, 14}
    for win in state(world)["rounds"][0]["wins"]:
        assert win["part"] == pytest.approx(0.5, abs=0.01)  # no one has waited yet: the values are linear in GPUs
        assert [ends[str(each)] for each in win["jobs"]] == [pytest.approx(NOW + win["lease_s"], abs=0.01)] * 4


def test_winners_pay_with_gpus_as_in_the_paper() -> None:
    jobs = [*sweep(1, range(1, 9)), *sweep(2, range(11, 19))]
    plan = decide(pool(*jobs, groups=[1, 2]), config(fairness=0, payment="gpus"))
    assert [place.job_id for place in plan.places] == [1, 2, 11, 12]
    # What they paid with is left over, and bidders get it only if they may.
    plan = decide(pool(*jobs, groups=[1, 2]), config(fairness=0, payment="gpus", conserve=True))
    assert len(plan.places) == 8


def test_the_worst_served_bid_and_the_others_get_left_overs_by_lot() -> None:
    jobs = [job(number, 1, submitted_at=NOW - 600 * number) for number in range(1, 11)]
    world = carried_out(pool(*jobs, gpus=4), config(fairness=0.8))
    (auction,) = state(world)["rounds"]
    assert list(auction["bids"]) == ["job 10", "job 9"]  # the longest waits in units of T_id
    assert {10, 9} < running(world)
    assert len(auction["drawn"]) == 2
    assert auction["outside"] == 8


def test_left_overs_take_no_quota_from_a_winner() -> None:
    # Six GPUs of eight are in the quota: members of the sweep that would keep theirs go for the job that wins.
    vc = VirtualCluster(1, 1, "vision", {"A100": 6})
    world = replace(pool(*sweep(7, range(1, 7)), groups=[7]), vcs=(vc,))
    world = carried_out(world, config(fairness=0.5))
    assert running(world) == {1, 2, 3, 4, 5, 6}
    world = carried_out(later(world, NOW + LEASE_S + 1, [job(9, 3)]), config(fairness=0.5))
    assert 9 in running(world)
    assert len(running(world)) == 4


def test_a_job_that_does_not_give_its_gpus_back_holds_them() -> None:
    world = carried_out(pool(job(1, 8)), config())
    plan = decide(later(world, NOW + LEASE_S + 1, [job(2, 8)]), config())
    assert [(preempt.job_id, preempt.for_job_id) for preempt in plan.preempts] == [(1, None)]
    stopping = tuple(replace(run, state=AttemptState.STOPPING) for run in world.running)
    late = replace(later(world, NOW + 2 * LEASE_S, [job(2, 8)]), running=stopping)
    assert not decide(late, config()).places


def test_an_auction_that_gave_nothing_out_is_held_again_when_something_has_changed() -> None:
    # Another job has the CPUs that the waiting one needs.
    needs = job(1, 1, cpus=64)
    hog = replace(make_running(make_share(1, (), cpus=64), job=job(2, 0, cpus=64)), placed_at=NOW)
    world = carried_out(replace(pool(needs), running=(hog,)), config())
    for moment in (NOW + 61, NOW + 122):
        world = carried_out(later(world, moment), config())
    assert (running(world), state(world)["auctions"]) == ({2}, 1)
    assert running(carried_out(later(world, NOW + 183, ended=[2]), config())) == {1}
    assert state(carried_out(later(world, NOW + 2 * LEASE_S), config()))["auctions"] == 2


def test_what_may_not_be_stopped_keeps_its_gpus() -> None:
    fixed = job(1, 8, preemptible=False, time_limit_s=1e6)
    world = carried_out(pool(fixed), config())
    world = carried_out(later(world, NOW + 10 * LEASE_S, [job(2, 8)]), config())
    assert running(world) == {1}


def test_a_job_that_ran_before_the_policy_has_a_lease_since_its_start() -> None:
    run = replace(make_running(make_share(1, range(8)), job=job(1, 8)), placed_at=NOW)
    world = replace(pool(job(2, 8)), running=(run,))
    assert running(carried_out(later(world, NOW + LEASE_S - 1), config())) == {1}
    assert state(carried_out(later(world, NOW + LEASE_S + 1), config()))["auctions"] == 1


def test_an_auction_without_room_on_the_nodes_is_held_again_without_that_row() -> None:
    # Four GPUs are free, but no node has four: the rigid job cannot run, and the others get what it would have won.
    nodes = [make_node(1, gpus=2), make_node(2, gpus=2), make_node(3, gpus=4)]
    held = replace(make_running(make_share(3, range(4)), job=job(5, 4)), placed_at=NOW)
    world = make_snapshot(nodes=nodes, waiting=[job(1, 4, submitted_at=NOW - 9000), *sweep(7, range(11, 15))])
    world = replace(world, running=(held,), groups=(Group(7, 1, NOW, 0.0, 0.0),))
    world = carried_out(world, config(fairness=0))
    assert running(world) == {5, 11, 12, 13, 14}


def test_gpus_apart_are_worth_less_to_a_job_that_is_slower_there() -> None:
    known = (KnownRate("A100", 4, Rate(10.0, None, "measured"), slowdown=2.5),)
    slow = job(1, 4, split=True, locality=Locality.ANY, rates=known, expected_rate=10.0)
    nodes = [make_node(1, gpus=2), make_node(2, gpus=2), make_node(3, gpus=4)]
    plan = decide(make_snapshot(nodes=nodes, waiting=[slow]), config(fairness=0))
    assert [share.node_id for share in plan.places[0].allocations] == [3]
    assert plan.pool_state is not None
    rows = plan.pool_state.data["rounds"][0]["bids"]["job 1"]["rows"]  # type: ignore[index]
    assert [row[2] for row in rows] == [True, False]
    assert rows[0][3] / rows[1][3] == pytest.approx(2.5)
    # Where only GPUs apart are left, it takes them.
    apart = make_snapshot(nodes=[make_node(1, gpus=2), make_node(2, gpus=2)], waiting=[slow])
    assert [len(place.allocations) for place in decide(apart, config(fairness=0)).places] == [2]


def test_a_lease_is_renewed_on_one_node_where_that_is_faster() -> None:
    known = (KnownRate("A100", 4, Rate(10.0, None, "measured"), slowdown=2.5),)
    slow = job(1, 4, split=True, locality=Locality.ANY, rates=known, expected_rate=10.0)
    apart = make_running(make_share(1, range(2)), make_share(2, range(2), rank=1), job=slow)
    nodes = [make_node(1, gpus=2), make_node(2, gpus=2), make_node(3, gpus=4)]
    world = replace(make_snapshot(nodes=nodes), running=(replace(apart, placed_at=NOW - LEASE_S - 1),))
    (run,) = driving.carried_out(world, config()).running
    assert [share.node_id for share in run.allocations] == [3]


@pytest.mark.parametrize(("slowdown", "starts"), [(1.0, True), (2.5, False)])
def test_left_overs_apart_are_not_for_a_job_that_is_slower_there(slowdown: float, starts: bool) -> None:
    known = (KnownRate("A100", 4, Rate(10.0, None, "measured"), slowdown=slowdown),)
    gang = job(1, 4, split=True, locality=Locality.ANY, rates=known, expected_rate=10.0)
    held = replace(make_running(make_share(3, range(4)), job=job(5, 4)), placed_at=NOW)
    nodes = [make_node(1, gpus=2), make_node(2, gpus=3), make_node(3, gpus=4)]
    world = make_snapshot(nodes=nodes, waiting=[gang, job(2, 1, submitted_at=NOW - 9000)], running=[held])
    assert running(carried_out(world, config())) == {5, 2} | ({1} if starts else set())


def test_an_unknown_run_time_is_no_obstacle() -> None:
    assert running(carried_out(pool(job(1, 4, hours=None), job(2, 4, hours=None)), config(fairness=0))) == {1, 2}


def test_a_decision_after_a_day_of_auctions_remembers_little() -> None:
    world, draw = pool(), Random(1)
    for number in range(200):
        now = NOW + 300.0 * number
        arrived = job(number + 1, draw.choice((1, 2, 4)), submitted_at=now)
        ended = [run.job.id for run in world.running if draw.random() < 0.4]
        world = carried_out(later(world, now, [arrived], ended), config())
    alive = {each.id for each in world.waiting} | running(world)
    assert {int(key) for key in state(world)["lease_ends"]} <= alive
    assert set(state(world)["arrivals"]) == {f"job {each}" for each in alive}
    assert len(state(world)["rounds"]) == 6


# What an application bids


def member(job_id: int, left: float = 100.0, gang: int = 1, **fields: Any) -> Member:
    return Member(job_id, left, fields.pop("done", 0.0), {"A100": gang}, {"A100": 1.0}, **fields)


def test_finish_times_are_those_of_the_formulas() -> None:
    # Three members with 300, 200 and 100 GPU-seconds and gangs of 2, 1 and 1; 60 GPU-seconds are done. Ten GPUs.
    members = (member(1, 300, 2, done=40), member(2, 200), member(3, 100))
    found = Application("sweep 1", 1, NOW - 50, members, done=20)
    assert found.work == 660
    assert found.demand == 4
    # Alone on 10/5 GPUs: the longest member is 340/2 s.
    assert found.isolated_s({"A100": 10}, 5.0, 4) == pytest.approx(660 / 2)
    assert found.isolated_s({"A100": 10}, 1.0, 4) == pytest.approx(200)  # member 2 with 200 s, above 660/4 and 340/2
    # With one GPU: 50 s have passed. With 4: the longest is 200 s. More than its demand is worth no more.
    assert found.shared_s(NOW, {"A100": 1}) == pytest.approx(50 + 600)
    assert found.shared_s(NOW, {"A100": 4}) == pytest.approx(50 + 200)
    assert found.shared_s(NOW, {"A100": 8}) == pytest.approx(50 + 200)
    assert found.shared_s(NOW, {}) == float("inf")


def test_sizes_of_a_bid_are_sums_of_gangs() -> None:
    gangs = (4, 4, 2, 2, 1, 1, 1)
    found = Application(
        "sweep 1", 1, NOW, tuple(member(number, 100 - number, gang) for number, gang in enumerate(gangs))
    )
    assert found.sizes("A100", 64) == [4, 8, 15]
    assert found.sizes("A100", 11) == [4, 8, 10]
    assert found.sizes("A100", 3) == []
    assert [each.job_id for each in found.served("A100", 10)] == [0, 1, 2]
    many = Application("sweep 1", 1, NOW, tuple(member(number) for number in range(1000)))
    assert many.sizes("A100", 1000) == [1, 2, 4, 8, 16, 32, 64, 1000]


def test_members_that_run_go_on_before_others_start() -> None:
    found = Application("sweep 1", 1, NOW, (member(1, 100), member(2, 50, on="A100"), member(3, 200)))
    assert [each.job_id for each in found.bidding] == [2, 3, 1]


def candidate(key: str, tenant: int, gpus: int = 1, *, rho: float = 5.0, most: int | None = None) -> Candidate:
    return Candidate(Application(key, tenant, NOW, (member(1),)), rho, 1.0, 100.0, gpus, most or gpus)


def test_a_tenant_gains_no_bidders_by_splitting_a_sweep() -> None:
    parts = [candidate(f"job {number}", 1, rho=9.0) for number in range(1000)]
    whole = candidate("sweep 2", 2, rho=2.0, most=64)
    inside, outside = split(ranked([*parts, whole]), 0.8, 64, {1: 1.0, 2: 1.0})
    assert sum(each.fewest for each in inside if each.application.tenant_id == 1) == 32  # its half of the offer
    assert whole in inside
    assert whole not in outside
    # Together its bidders weigh as much as the one of the other tenant.
    weights = dict(zip([each.application.key for each in inside], shares(inside, {1: 1.0, 2: 1.0}), strict=True))
    assert weights.pop("sweep 2") == pytest.approx(sum(weights.values()))
    # Left-overs go to the tenants in turns.
    order = drawn([*parts[:100], candidate("job 5000", 3)], frozenset(), Random(1))
    assert "job 5000" in [each.application.key for each in order[:2]]


def test_gpus_that_a_tenant_has_count_in_its_part() -> None:
    # Else a tenant of many single jobs would win each GPU that comes free: a job without GPUs makes one winner more.
    both = [candidate("job 1", 1), candidate("sweep 2", 2, rho=1.5, most=64)]
    inside, _ = split(ranked(both), 0.0, 1, {1: 1.0, 2: 1.0}, held={1: 8, 2: 7})
    assert [each.application.key for each in inside] == ["sweep 2"]
    inside, _ = split(ranked(both), 0.0, 1, {1: 1.0, 2: 1.0}, held={1: 7, 2: 8})
    assert [each.application.key for each in inside] == ["job 1"]


def test_what_other_tenants_do_not_want_a_tenant_may_ask_for() -> None:
    parts = [candidate(f"job {number}", 1) for number in range(100)]
    inside, _ = split([*parts, candidate("job 500", 2, 4)], 0.0, 40, {1: 1.0, 2: 1.0})
    assert sum(each.fewest for each in inside if each.application.tenant_id == 1) == 36


def test_the_part_of_a_tenant_follows_its_weight() -> None:
    jobs = [replace(job(number), tenant_id=1 + number % 2) for number in range(1, 33)]
    world = replace(
        pool(*jobs, gpus=8),
        tenants=(Tenant(1, "small", 1.0), Tenant(2, "large", 3.0)),
        vcs=(VirtualCluster(1, 1, "small", {"A100": 8}), VirtualCluster(2, 2, "large", {"A100": 8})),
    )
    world = carried_out(world, config(fairness=0))
    assert sum(run.job.tenant_id == 2 for run in world.running) == 6
