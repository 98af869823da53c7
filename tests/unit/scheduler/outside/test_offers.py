"""Offers to external frameworks: which framework is next, what it is offered of a node, and which nodes are skipped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.admission import ADMISSIONS
from scheduler.engine.cycle import CycleConfig, decide
from scheduler.model import AllocationView, Node, Running, Snapshot, VirtualCluster
from scheduler.model.invariants import check
from scheduler.model.lifecycle import RuntimeNeed
from scheduler.model.plan import Place, Plan
from scheduler.outside.offers import Filter, Framework, Offer, OfferRound, Role, offers, reservation_of
from tests.unit.scheduler.factories import (
    NOW,
    make_job,
    make_node,
    make_running,
    make_share,
    make_snapshot,
    make_vc,
)

QUOTA = ADMISSIONS.make("quota", {})
ONE, TWO = Role(1, vc_id=1), Role(2, vc_id=2)


def vcs(**quotas: int) -> tuple[VirtualCluster, ...]:
    """Virtual clusters 1 and 2; `one=4` gives the first a quota of four A100."""
    numbers = {"one": 1, "two": 2}
    return tuple(make_vc(pk, name, {"A100": quotas.get(name, 1000)}) for name, pk in numbers.items())


def framework(pk: int, role_id: int = 1, **held: int) -> Framework:
    return Framework(pk, role_id, held)


def standing(world: Snapshot, made: Iterable[Offer]) -> Snapshot:
    """The world with these offers standing for half a minute, with ids from 1 on."""
    kept = tuple(reservation_of(number, offer.share, NOW + 30) for number, offer in enumerate(made, 1))
    return replace(world, reservations=(*world.reservations, *kept))


@dataclass(frozen=True)
class Case:
    nodes: tuple[Node, ...]
    frameworks: tuple[Framework, ...]
    expected: list[tuple[int, int, int]]  # framework, node, GPUs
    roles: tuple[Role, ...] = (ONE, TWO)
    filters: tuple[Filter, ...] = ()
    running: tuple[Running, ...] = ()
    quotas: Mapping[str, int] = field(default_factory=dict)
    most: int = 256


def nodes(*gpus: int) -> tuple[Node, ...]:
    return tuple(make_node(node_id, gpus=count) for node_id, count in enumerate(gpus, 1))


CASES = {
    "no framework asks": Case(nodes(4), (), []),
    "a node goes whole to one framework": Case(nodes(4), (framework(1), framework(2, 2)), [(1, 1, 4)]),
    "two roles take turns": Case(
        nodes(4, 4, 4, 4), (framework(1), framework(2, 2)), [(1, 1, 4), (2, 2, 4), (1, 3, 4), (2, 4, 4)]
    ),
    "who holds less is next": Case(nodes(4, 4), (framework(1, A100=4), framework(2, 2)), [(2, 1, 4), (1, 2, 4)]),
    "a role of twice the weight gets twice as much": Case(
        nodes(4, 4, 4),
        (framework(1), framework(2, 2)),
        [(1, 1, 4), (2, 2, 4), (2, 3, 4)],
        roles=(ONE, replace(TWO, weight=2.0)),
    ),
    "the dominant resource is what counts": Case(
        nodes(4, 4), (framework(1, cpus=90), framework(2, 2, A100=2)), [(2, 1, 4), (1, 2, 4)]
    ),
    "frameworks of one role take turns": Case(nodes(4, 4), (framework(1), framework(2)), [(1, 1, 4), (2, 2, 4)]),
    "the role is next, not its frameworks": Case(
        nodes(4, 4, 4, 4),
        (framework(1), framework(2), framework(3, 2)),
        [(1, 1, 4), (3, 2, 4), (2, 3, 4), (3, 4, 4)],
    ),
    "the emptiest node first": Case(nodes(2, 8, 4), (framework(1),), [(1, 2, 8), (1, 3, 4), (1, 1, 2)]),
    "a filtered node goes to another": Case(
        nodes(4), (framework(1), framework(2, 2)), [(2, 1, 4)], filters=(Filter(1, 1, NOW + 5),)
    ),
    "a node that all frameworks filter is skipped": Case(
        nodes(4), (framework(1),), [], filters=(Filter(1, 1, NOW + 0.1),)
    ),
    "a filter that has ended is none": Case(nodes(4), (framework(1),), [(1, 1, 4)], filters=(Filter(1, 1, NOW),)),
    "no quota, no offer": Case(nodes(4), (framework(1), framework(2, 2)), [(2, 1, 4)], quotas={"one": 0}),
    "no more is offered than the quota leaves": Case(
        nodes(4, 4), (framework(1),), [(1, 1, 4), (1, 2, 2)], quotas={"one": 6}
    ),
    "what jobs of the queue hold is off the quota": Case(
        nodes(4, 4), (framework(1),), [(1, 2, 2)], quotas={"one": 6}, running=(make_running(make_share(1, range(4))),)
    ),
    "a node that takes no jobs is not offered": Case(
        (make_node(1, schedulable=False, unschedulable_reason="cordoned"), make_node(2)), (framework(1),), [(1, 2, 8)]
    ),
    "a sick GPU is not offered": Case((make_node(1, gpus=4, unhealthy=[0]),), (framework(1),), [(1, 1, 3)]),
    "GPUs without a CPU are not offered": Case((make_node(1, gpus=4, cpus=0),), (framework(1),), []),
    "what runs is not offered": Case(nodes(4), (framework(1),), [(1, 1, 3)], running=(make_running(make_share(1)),)),
    "a framework of a role that is gone gets nothing": Case(nodes(4), (framework(1, role_id=7),), []),
    "what one holds that does not ask counts for its role": Case(
        nodes(4, 4), (Framework(1, 1, {"A100": 1}, asks=False), framework(2), framework(3, 2)), [(3, 1, 4), (2, 2, 4)]
    ),
    "no node that cannot start what it launches": Case(
        (
            make_node(1, runtimes=(RuntimeNeed.PLAIN,)),
            make_node(2, gpus=2, runtimes=(RuntimeNeed.IMAGE,)),
            make_node(3, gpus=1),
        ),
        (replace(framework(1), needs=RuntimeNeed.IMAGE),),
        [(1, 2, 2), (1, 3, 1)],
    ),
    "what one cannot use goes to another": Case(
        (make_node(1, runtimes=(RuntimeNeed.PLAIN,)),),
        (replace(framework(1), needs=RuntimeNeed.IMAGE), framework(2, A100=1)),
        [(2, 1, 8)],
    ),
    "no more offers than asked for": Case(nodes(4, 4, 4), (framework(1),), [(1, 1, 4), (1, 2, 4)], most=2),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_offers_are_made(case: Case) -> None:
    world = make_snapshot(nodes=case.nodes, vcs=vcs(**case.quotas), running=case.running)
    round_ = OfferRound(case.roles, case.frameworks, filters=case.filters)
    made = offers(world, QUOTA, round_, most=case.most)
    assert [(one.framework_id, one.share.node_id, len(one.share.gpu_ids)) for one in made] == case.expected


def test_an_offer_has_all_that_its_node_has_free() -> None:
    world = make_snapshot(running=[make_running(make_share(1, (0, 1), cpus=14, memory_mib=1000))], vcs=vcs())
    (made,) = offers(world, QUOTA, OfferRound((ONE,), (framework(1),)))
    assert made.share == AllocationView(1, 0, tuple(range(102, 108)), 50, 512 * 1024 - 1000)


@pytest.mark.parametrize(("closes_in_s", "offered"), [(None, True), (31, True), (30, False), (0, False), (-1, False)])
def test_a_node_that_closes_before_the_offers_time_is_up_is_not_offered(
    closes_in_s: float | None, offered: bool
) -> None:
    maintenance_starts_at = None if closes_in_s is None else NOW + closes_in_s
    world = make_snapshot(
        nodes=(make_node(1, maintenance_starts_at=maintenance_starts_at), make_node(2, gpus=2)), vcs=vcs()
    )
    made = offers(world, QUOTA, OfferRound((ONE,), (framework(1),), lease_s=30))
    assert [offer.share.node_id for offer in made] == ([1, 2] if offered else [2])


def test_a_single_user_node_is_offered_to_its_tenant_only() -> None:
    tenant_id = vcs()[0].tenant_id
    nodes = [make_node(number, single_user=True, tenant_id=owner) for number, owner in ((1, tenant_id), (2, 99))]
    made = offers(make_snapshot(nodes=nodes, vcs=vcs()), QUOTA, OfferRound((ONE,), (framework(1),)))
    assert [offer.share.node_id for offer in made] == [1]


def test_a_part_of_the_gpus_comes_with_its_part_of_the_rest() -> None:
    world = make_snapshot(vcs=vcs(one=2))
    (made,) = offers(world, QUOTA, OfferRound((ONE,), (framework(1),)))
    assert made.share == AllocationView(1, 0, (100, 101), 16, 128 * 1024)


def test_what_stands_is_neither_offered_again_nor_forgotten() -> None:
    world = make_snapshot(nodes=nodes(4, 4), vcs=vcs(one=6))
    first = offers(world, QUOTA, OfferRound((ONE,), (framework(1),)), most=1)
    world = standing(world, first)
    again = offers(world, QUOTA, OfferRound((ONE, TWO), (framework(1), framework(2, 2)), standing=first))
    assert [(one.framework_id, one.share.node_id) for one in again] == [(2, 2)]
    alone = offers(world, QUOTA, OfferRound((ONE,), (framework(1),), standing=first))
    assert [len(one.share.gpu_ids) for one in alone] == [2]  # four of its quota of six stand already


def test_what_an_offer_left_on_a_node_has_no_cpus_of_the_offers() -> None:
    world = make_snapshot(vcs=vcs(one=2))
    first = offers(world, QUOTA, OfferRound((ONE,), (framework(1),)))
    (made,) = offers(standing(world, first), QUOTA, OfferRound((ONE, TWO), (framework(2, 2),), standing=first))
    assert (made.share.gpu_ids, made.share.cpus) == (tuple(range(102, 108)), 48)


def test_an_offer_past_its_time_is_free() -> None:
    world = make_snapshot(vcs=vcs())
    first = offers(world, QUOTA, OfferRound((ONE,), (framework(1),)))
    later = replace(standing(world, first), now=NOW + 30)
    assert len(offers(later, QUOTA, OfferRound((TWO,), (framework(2, 2),)))) == 1


# How the pool's own cycle and the invariants treat a standing offer.


def test_a_cycle_leaves_offered_gpus_and_cpus_alone() -> None:
    world = make_snapshot(waiting=[make_job(1, gpus=7, cpus=1), make_job(2, gpus=6, cpus=49)], vcs=vcs(one=1000))
    world = standing(world, [Offer(1, make_share(1, (0, 1), cpus=16))])
    assert decide(world, CycleConfig()).places == ()
    roomy = replace(world, waiting=(make_job(3, gpus=6, cpus=48),))
    (place,) = decide(roomy, CycleConfig()).places
    assert place.allocations[0].gpu_ids == tuple(range(102, 108))


def test_the_law_refuses_offered_gpus_to_a_job_until_the_offer_has_ended() -> None:
    world = standing(make_snapshot(waiting=[make_job(1)]), [Offer(1, make_share(1, (0, 1)))])
    plan = Plan((Place(1, (make_share(1, (0,)),)),), ())
    assert [found.code for found in check(world, plan, QUOTA)] == ["gpu_reserved"]
    assert check(replace(world, now=NOW + 30), plan, QUOTA) == ()


# Properties of every world.


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Snapshot, OfferRound]:
    """A pool in which some jobs run, some offers stand and some nodes are filtered."""
    drawn = [
        make_node(
            node_id,
            gpus=draw(st.integers(0, 4)),
            gpu_type=draw(st.sampled_from(["A100", "V100"])),
            unhealthy=draw(st.sets(st.integers(0, 3), max_size=1)),
            cpus=draw(st.integers(0, 8)),
            schedulable=draw(st.integers(0, 5)) > 0,
        )
        for node_id in range(1, draw(st.integers(0, 6)) + 1)
    ]
    quotas = st.dictionaries(st.sampled_from(["A100", "V100"]), st.integers(0, 10))
    world = make_snapshot(
        nodes=drawn,
        vcs=[make_vc(pk, f"vc{pk}", draw(quotas)) for pk in (1, 2)],
        running=[
            make_running(make_share(node.id, (0,)), attempt_id=node.id, vc_id=draw(st.integers(1, 2)))
            for node in drawn
            if node.gpus and draw(st.integers(0, 3)) == 0
        ],
    )
    roles = [Role(pk, draw(st.integers(1, 2)), draw(st.sampled_from([0.5, 1.0, 3.0]))) for pk in (1, 2, 3)]
    amounts = st.dictionaries(st.sampled_from(["A100", "V100", "cpus"]), st.integers(0, 4))
    frameworks = [Framework(pk, draw(st.integers(1, 3)), draw(amounts)) for pk in range(1, draw(st.integers(0, 5)) + 1)]
    filters = [
        Filter(draw(st.integers(1, 5)), draw(st.integers(1, 6)), NOW + draw(st.sampled_from([-1, 5])))
        for _ in range(draw(st.integers(0, 5)))
    ]
    round_ = OfferRound(roles, frameworks, filters=filters)
    early = offers(world, QUOTA, round_, most=draw(st.integers(0, 3)))
    return standing(world, early), replace(round_, standing=early)


def tried(test: object) -> object:
    return given(worlds())(test)  # type: ignore[arg-type]


@tried
def test_no_gpu_is_offered_twice_or_while_it_is_held(drawn: tuple[Snapshot, OfferRound]) -> None:
    world, round_ = drawn
    made = [*round_.standing, *offers(world, QUOTA, round_)]
    gpu_ids = [gpu_id for one in made for gpu_id in one.share.gpu_ids]
    assert len(gpu_ids) == len(set(gpu_ids))
    assert not set(gpu_ids) & set(world.holders_of_gpu)
    assert all(world.gpu_by_id[gpu_id].healthy for gpu_id in gpu_ids)
    for node in world.nodes:
        here = [one.share for one in made if one.share.node_id == node.id]
        used_cpus, used_memory_mib = world.used_by_node.get(node.id, (0, 0))
        assert node.schedulable or not here
        assert not here or used_cpus + sum(share.cpus for share in here) <= node.cpus
        assert not here or used_memory_mib + sum(share.memory_mib for share in here) <= node.memory_mib


@tried
def test_a_framework_could_launch_all_that_it_is_offered(drawn: tuple[Snapshot, OfferRound]) -> None:
    """One job on each offer, all at once, breaks no invariant."""
    world, round_ = drawn
    role_of = {one.id: next(role for role in round_.roles if role.id == one.role_id) for one in round_.frameworks}
    made = offers(world, QUOTA, round_)
    jobs = [
        make_job(
            number,
            vc_id=role_of[one.framework_id].vc_id,
            gpus=len(one.share.gpu_ids),
            gpu_type=None,
            cpus=one.share.cpus,
            memory_mib=one.share.memory_mib,
        )
        for number, one in enumerate([*round_.standing, *made], 1)
    ]
    shares = [one.share for one in (*round_.standing, *made)]
    places = tuple(Place(job.id, (share,)) for job, share in zip(jobs, shares, strict=True))
    accepted = replace(world, reservations=(), waiting=tuple(jobs))
    assert check(accepted, Plan(places, ()), QUOTA) == ()


@tried
def test_filters_are_respected_until_they_end(drawn: tuple[Snapshot, OfferRound]) -> None:
    world, round_ = drawn
    refused = {(one.framework_id, one.node_id) for one in round_.filters if one.until > NOW}
    made = offers(world, QUOTA, round_)
    assert not refused & {(one.framework_id, one.share.node_id) for one in made}


@tried
def test_in_the_end_all_that_a_role_may_have_is_offered(drawn: tuple[Snapshot, OfferRound]) -> None:
    """A framework without an offer of a node, once the filters have ended, has no quota for it, or the node has no
    CPUs."""
    world, round_ = drawn
    round_ = replace(round_, filters=())
    made = [*round_.standing, *offers(world, QUOTA, round_)]
    offered = {gpu_id for one in made for gpu_id in one.share.gpu_ids}
    roles = {role.id: role for role in round_.roles}
    vc_of = {one.id: roles[one.role_id].vc_id for one in round_.frameworks}
    for gpu in world.gpu_by_id.values():
        node = world.node_by_id[gpu.node_id]
        if gpu.id in offered or gpu.id in world.holders_of_gpu or not (gpu.healthy and node.schedulable):
            continue
        cpus = node.cpus - world.used_by_node.get(node.id, (0, 0))[0]
        if cpus < len(node.gpus) or any(one.share.node_id == node.id for one in made):
            continue
        for vc_id in set(vc_of.values()):
            had = sum(
                world.gpu_by_id[gpu_id].type == gpu.type
                for one in made
                if vc_of[one.framework_id] == vc_id
                for gpu_id in one.share.gpu_ids
            )
            held = world.held_by_vc.get((vc_id, gpu.type), 0)
            assert had + held >= world.vc_by_id[vc_id].quotas.get(gpu.type, 0)


@tried
def test_each_offer_goes_to_the_role_with_the_least_that_would_take_any(drawn: tuple[Snapshot, OfferRound]) -> None:
    """A role that had less when an offer was made gets nothing afterwards, since it accepts nothing more."""
    world, round_ = drawn
    made = offers(world, QUOTA, round_)
    role_of = {one.id: one.role_id for one in round_.frameworks}
    weight = {role.id: role.weight for role in round_.roles}
    total: dict[str, int] = {"cpus": sum(node.cpus for node in world.nodes)}
    total["memory_mib"] = sum(node.memory_mib for node in world.nodes)
    for gpu in world.gpu_by_id.values():
        total[gpu.type] = total.get(gpu.type, 0) + 1
    held: dict[int, dict[str, int]] = {role.id: {} for role in round_.roles}

    def charge(role_id: int, vector: Mapping[str, int]) -> None:
        for resource, amount in vector.items():
            held[role_id][resource] = held[role_id].get(resource, 0) + amount

    def of(one: Offer) -> dict[str, int]:
        vector = {"cpus": one.share.cpus, "memory_mib": one.share.memory_mib}
        for gpu_id in one.share.gpu_ids:
            kind = world.gpu_by_id[gpu_id].type
            vector[kind] = vector.get(kind, 0) + 1
        return vector

    def share(role_id: int) -> float:
        found = (amount / total[name] if total.get(name) else 1.0 for name, amount in held[role_id].items() if amount)
        return max(found, default=0.0) / weight[role_id]

    for known in round_.frameworks:
        charge(known.role_id, known.held)
    for one in round_.standing:
        charge(role_of[one.framework_id], of(one))
    for number, one in enumerate(made):
        role_id, later = role_of[one.framework_id], {role_of[next_.framework_id] for next_ in made[number:]}
        assert role_id == min(later, key=lambda other: (share(other), other))
        charge(role_id, of(one))


@tried
def test_the_same_world_in_any_order_has_the_same_offers(drawn: tuple[Snapshot, OfferRound]) -> None:
    world, round_ = drawn
    twin = replace(world, nodes=world.nodes[::-1], running=world.running[::-1], vcs=world.vcs[::-1])
    turned = OfferRound(round_.roles[::-1], round_.frameworks[::-1], round_.standing[::-1], round_.filters[::-1])
    assert offers(twin, QUOTA, turned) == offers(world, QUOTA, round_)
