"""Rounds: shares of time become leases, and each job receives its share in the long run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.admission import ADMISSIONS
from scheduler.authoring import MAX_STATE_BYTES, Cycle, PolicyError, RoundPolicy
from scheduler.bases.rounds import Account, Ledger
from scheduler.engine.cycle import Profile, decide_on
from scheduler.engine.policy import POLICIES
from scheduler.engine.state import SchedulerState
from scheduler.model import Job, KnownRate, PoolState, Rate, Snapshot
from scheduler.model.invariants import check
from scheduler.model.plan import Plan, apply
from scheduler.placement import PLACEMENTS
from scheduler.sim.work import FixedWork
from tests.profiles import examples
from tests.sim.stories import by_id, ends, job, play
from tests.unit.scheduler.factories import make_job, make_node, make_running, make_share, make_snapshot

Shares = Mapping[int | tuple[int, ...], Mapping[str, float]]
ROUND_S = 60.0


class Given(RoundPolicy):
    """The shares that the test gives; equal ones for all jobs without."""

    params_schema = {"type": "object", "properties": {"each": {"type": "number"}}}
    round_s = ROUND_S
    shares_of: Shares | None = None

    def __init__(self, shares: Shares | None = None, each: float = 1.0) -> None:
        self.shares_of, self.each = shares, each

    def shares(self, cycle: Cycle) -> Shares:
        if self.shares_of is not None:
            return self.shares_of
        jobs = [*cycle.waiting(), *(run.job for run in cycle.running())]
        return {one.id: {config.gpu_type or "": self.each for config in cycle.configs(one)[:1]} for one in jobs}


def plan_of(world: Snapshot, shares: Shares | None = None, idle_gpus: str = "all") -> Plan:
    admission = ADMISSIONS.make("quota", {})
    policy = Given(shares)
    policy.idle_gpus = idle_gpus
    profile = Profile(policy, PLACEMENTS.make("consolidate", {}), admission, policy_name="given")
    plan = decide_on(SchedulerState(world), profile, max_places=256)
    assert not check(world, plan, admission)
    return plan


@pytest.fixture
def _given(monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[str, Any] = dict(POLICIES._classes)
    monkeypatch.setitem(POLICIES.__dict__, "_classes", known | {"given": Given})


def test_a_round_begins_with_the_first_decision_and_wakes_the_pool_at_its_end() -> None:
    world = make_snapshot(waiting=[make_job(1)])
    plan = plan_of(world)
    assert [place.job_id for place in plan.places] == [1]
    assert plan.wake_at == world.now + ROUND_S
    assert plan.pool_state is not None


def test_a_job_that_starts_in_a_round_of_no_jobs_has_a_part_in_the_next_one() -> None:
    empty = make_snapshot()
    world = make_snapshot(waiting=[make_job(1)])
    later = replace(world, now=world.now + 1, pool_state=plan_of(empty).pool_state)
    assert plan_of(later).wake_at == empty.now + ROUND_S


def test_jobs_that_are_no_candidates_now_may_be_at_the_end_of_the_round() -> None:
    lasting = make_running(make_share(1, [1]), preemptible=False)
    world = make_snapshot(running=[lasting])
    assert plan_of(world).wake_at == world.now + ROUND_S
    assert plan_of(make_snapshot()).wake_at is None


def test_rates_that_become_known_are_a_reason_to_solve_again_and_rates_that_move_are_not() -> None:
    def solved_at(world: Snapshot, **rates: float) -> tuple[float, PoolState | None]:
        known = tuple(KnownRate(kind, 1, Rate(rate, None, "claimed")) for kind, rate in rates.items())
        state = plan_of(replace(world, waiting=(make_job(1, rates=known),))).pool_state
        return (state.data["reset_at"] if state is not None else 0.0), state

    world = make_snapshot()
    first, state = solved_at(world)
    later = replace(world, now=world.now + ROUND_S, pool_state=state)
    assert (first, solved_at(later)[0]) == (world.now, world.now)
    again, state = solved_at(later, A100=3.0)
    assert again == later.now
    last = replace(world, now=world.now + 2 * ROUND_S, pool_state=state)
    assert solved_at(last, A100=4.0)[0] == later.now


def test_the_type_with_the_share_is_given() -> None:
    nodes = [make_node(1), make_node(2, gpu_type="V100")]
    either = make_job(1, gpu_type=None, gpu_types=("A100", "V100"))
    plan = plan_of(make_snapshot(nodes=nodes, waiting=[either]), {1: {"V100": 1.0}}, idle_gpus="none")
    assert plan.places[0].allocations[0].node_id == 2


def test_gpus_beyond_the_shares_go_to_the_other_jobs() -> None:
    plan = plan_of(make_snapshot(waiting=[make_job(1), make_job(2)]), {1: {"A100": 1.0}})
    assert {place.job_id for place in plan.places} == {1, 2}


def test_a_lease_that_no_other_job_wants_is_extended() -> None:
    run = make_running(make_share(1, range(4)))
    plan = plan_of(make_snapshot(waiting=[make_job(1, gpus=4)], running=[run]), {1: {"A100": 1.0}})
    assert not plan.preempts
    assert [place.job_id for place in plan.places] == [1]


def test_a_lease_that_another_job_is_owed_ends() -> None:
    run = make_running(make_share(1, range(8)))
    plan = plan_of(make_snapshot(waiting=[make_job(1, gpus=4)], running=[run]), {1: {"A100": 1.0}})
    assert [(one.job_id, one.for_job_id) for one in plan.preempts] == [(run.job.id, None)]
    assert [place.job_id for place in plan.places] == [1]


def test_a_job_that_may_not_be_preempted_keeps_its_gpus() -> None:
    run = make_running(make_share(1, range(8)), preemptible=False)
    plan = plan_of(make_snapshot(waiting=[make_job(1)], running=[run]), {1: {"A100": 1.0}})
    assert not plan.preempts
    assert not plan.places


def sharing(job_id: int, **fields: Any) -> Job:
    """A job with 4 GPUs that it may share."""
    return make_job(job_id, gpus=4, packs=True, gpu_memory_mib=1024, **fields)


def places_of(plan: Plan) -> dict[int, set[int]]:
    """The GPUs that each job gets."""
    return {place.job_id: {gpu_id for share in place.allocations for gpu_id in share.gpu_ids} for place in plan.places}


def test_the_two_jobs_of_a_pair_get_the_same_gpus() -> None:
    shares: Shares = {(1, 2): {"A100": 1.0}, 3: {"A100": 1.0}}
    found = places_of(plan_of(make_snapshot(waiting=[sharing(1), sharing(2), sharing(3)]), shares))
    assert found[1] == found[2]
    assert found[1].isdisjoint(found[3])


def test_a_pair_takes_the_gpus_of_a_job_whose_lease_ends() -> None:
    run = make_running(make_share(1, range(8)))
    plan = plan_of(make_snapshot(waiting=[sharing(1), sharing(2)], running=[run]), {(1, 2): {"A100": 1.0}})
    assert [one.job_id for one in plan.preempts] == [run.job.id]
    assert places_of(plan)[1] == places_of(plan)[2]


def test_of_a_pair_that_parts_one_job_moves_and_a_pair_that_stays_keeps_its_gpus() -> None:
    world = make_snapshot(waiting=[sharing(1), sharing(2)])
    together = apply(world, plan_of(world, {(1, 2): {"A100": 1.0}}))
    later = replace(together, now=together.now + ROUND_S, waiting=(make_job(3),))  # so the shares are asked for again
    plan = plan_of(later, {1: {"A100": 1.0}, 2: {"A100": 1.0}})
    assert places_of(plan).keys() == {2}  # the first stays where it is
    kept = plan_of(later, {(1, 2): {"A100": 1.0}})
    assert places_of(kept).keys() == {3}
    assert not kept.preempts


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        ({7: {"A100": 1.0}}, "job 7, which is not in this pool"),
        ({1: {"H100": 1.0}}, "name H100; the pool has A100"),
        ({1: {"A100": -0.5}}, "is -0.5, not from 0 to 1"),
        ({1: {"A100": float("nan")}}, "is nan, not from 0 to 1"),
        ({(1, 1): {"A100": 0.5}}, "neither a job nor a pair"),
        ({(1, 7): {"A100": 0.5}}, "job 7, which is not in this pool"),
    ],
)
def test_wrong_shares_are_named(shares: Shares, words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        plan_of(make_snapshot(waiting=[make_job(1)]), shares)


def test_shares_of_a_job_add_up_to_at_most_one() -> None:
    nodes = [make_node(1), make_node(2, gpu_type="V100")]
    either = make_job(1, gpu_type=None, gpu_types=("A100", "V100"))
    with pytest.raises(PolicyError, match=r"add up to 1\.5"):
        plan_of(make_snapshot(nodes=nodes, waiting=[either]), {1: {"A100": 1.0, "V100": 0.5}})


@pytest.mark.usefixtures("_given")
def test_two_jobs_take_turns_on_one_gpu() -> None:
    jobs = [job(1, runs=300), job(2, runs=300)]
    result = play(jobs, "A100:1x1", policy="given", policy_params={"each": 0.5})
    assert ends(result) == {1: 540.0, 2: 600.0}
    assert by_id(result)[1].preemptions == 2


@pytest.mark.usefixtures("_given")
def test_a_job_that_arrives_in_a_round_starts_on_a_free_gpu_and_stops_no_other() -> None:
    result = play([job(1, gpus=3, runs=100), job(2, at=10, runs=20)], policy="given")
    assert ends(result) == {1: 100, 2: 30}


@pytest.mark.usefixtures("_given")
@settings(max_examples=examples(30))
@given(
    st.lists(st.tuples(st.integers(0, 500), st.sampled_from([1, 1, 2, 4]), st.integers(1, 900)), min_size=1, max_size=8)
)
def test_each_job_ends_and_the_gpus_never_idle_while_one_would_fit(jobs: list[tuple[int, int, int]]) -> None:
    stories = [job(n, at=at, gpus=gpus, runs=runs) for n, (at, gpus, runs) in enumerate(sorted(jobs), start=1)]
    result = play(stories, policy="given", policy_params={"each": 0.25})
    assert all(record.ended_s is not None for record in result.records)
    assert result.busy_gpu_s == pytest.approx(sum(gpus * runs for _, gpus, runs in jobs))


@pytest.mark.usefixtures("_given")
def test_a_share_of_a_faster_type_speeds_a_job_up() -> None:
    rates = {"A100": 2.0, "V100": 1.0}
    fast = [job(n, work=FixedWork(1200, rates=rates)) for n in (1, 2)]
    result = play(fast, "A100:1x1,V100:1x1", policy="given", policy_params={"each": 0.5})
    assert max(record.ended_s or 0.0 for record in result.records) <= 960


def test_the_accounts_of_ten_thousand_jobs_fit_into_the_state_of_a_pool() -> None:
    types = ["A100", "H100", "T4", "V100"]
    account = Account(dict.fromkeys(types, 0.0012345), {}, dict.fromkeys(types, -123.456))
    inputs = (frozenset(range(10_000)), {}, 0)
    ledger = Ledger(types=types, inputs=inputs, accounts={(n,): account for n in range(10_000)})
    assert len(json.dumps(ledger.to_state())) <= MAX_STATE_BYTES
    again = Ledger.read(json.loads(json.dumps(ledger.to_state()))).accounts[9_999,]
    assert (again.shares["T4"], again.deficit_s["T4"]) == (0.0012345, -123)
