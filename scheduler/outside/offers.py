"""Two-level scheduling: which free GPUs are offered to which external framework, which then decides what to run.

Source: Hindman et al., Mesos (NSDI 2011), §3: offers by dominant resource fairness over roles, filters, and offers that
are leases. docs/operator/offers.md lists the differences. Like a policy, this module reads only its arguments and keeps
nothing. The view holds the standing offers as reservations, so the invariants keep other jobs off them.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from scheduler.admission import Admission, Grant, Ledger
from scheduler.engine.state import SchedulerState
from scheduler.engine.usage import CPUS, MEMORY_MIB, Vector
from scheduler.model import AllocationView, Job, Node, Reservation, View
from scheduler.model.eligibility import admits_tenant, can_start
from scheduler.model.lifecycle import JobClass, RuntimeNeed
from scheduler.model.plan import Denial
from scheduler.model.request import Config
from scheduler.placement.capacity import Capacity
from scheduler.placement.free import FreeNode
from scheduler.policies.shared import dominant


@dataclass(frozen=True, slots=True)
class Role:
    """A part of a virtual cluster that is offered to frameworks instead of being scheduled.

    Jobs launched on offers of a `revocable` role may be preempted for others.
    """

    id: int
    vc_id: int
    weight: float = 1.0
    revocable: bool = False


@dataclass(frozen=True, slots=True)
class Framework:
    """An external scheduler. `held` is what its jobs hold, without its standing offers. `asks` is whether it wants
    offers now; what it holds counts for its role in any case. `needs` is the runtime that its jobs need.
    """

    id: int
    role_id: int
    held: Vector
    asks: bool = True
    needs: RuntimeNeed = RuntimeNeed.ANY


@dataclass(frozen=True, slots=True)
class Offer:
    """GPUs, CPUs and memory of one node for one framework; the share's rank is always 0."""

    framework_id: int
    share: AllocationView


@dataclass(frozen=True, slots=True)
class Filter:
    """A framework's request to get no offer of a node before a moment."""

    framework_id: int
    node_id: int
    until: float


@dataclass(frozen=True, slots=True)
class OfferRound:
    """The roles and frameworks of a round, their standing offers and filters.

    An offer stands for `lease_s`.
    """

    roles: Sequence[Role]
    frameworks: Sequence[Framework]
    standing: Sequence[Offer] = ()
    filters: Sequence[Filter] = ()
    lease_s: float = 0.0


def reservation_of(offer_id: int, share: AllocationView, until: float) -> Reservation:
    """A standing offer as a reservation for an id that no job has, so that only the accepting framework can use it."""
    return Reservation(-offer_id, (share,), until)


def offers(view: View, admission: Admission, round_: OfferRound, *, most: int = 256) -> tuple[Offer, ...]:
    """The offers to make now, at most `most`, in order; `view` holds the standing ones as reservations.

    1. The next role is the one with the smallest dominant share by weight among the roles that accept more; within it,
       the framework with the smallest dominant share is next. Standing offers count as held.
    2. The framework is offered all free resources of one node: the node with the most free GPUs that it does not
       filter, that can start its jobs, and that stays open while the offer stands. If quota does not admit that many
       GPUs of a type, the offer holds as many as it admits, with their share of the CPUs and the memory.
    3. The round ends when no role accepts more.
    """
    state = SchedulerState(view)
    roles = {role.id: role for role in round_.roles}
    frameworks = sorted((one for one in round_.frameworks if one.role_id in roles), key=lambda one: one.id)
    shares = _ShareLedger(view, state.capacity, roles, round_)
    quota = _QuotaLedger(view, state.use(admission), roles, round_)
    until = view.now + round_.lease_s
    nodes = [node for node in state.free.by_room(None) if not _drains_before(view.node_by_id[node.id], until)]
    refused = {(one.framework_id, one.node_id) for one in round_.filters if one.until > view.now}
    taken: set[int] = set()
    walks: dict[int, list[_NodeWalk]] = {}
    for one in frameworks:
        if one.asks:
            unfit = {
                node.id for node in nodes if not _is_suitable(view, view.node_by_id[node.id], one, roles[one.role_id])
            }
            walks.setdefault(one.role_id, []).append(_NodeWalk(one, _eligible_nodes(one, nodes, refused, unfit)))
    heap = [(shares.of_role(role_id), role_id) for role_id in sorted(walks)]
    heapq.heapify(heap)
    made: list[Offer] = []
    while heap and len(made) < most:
        _, role_id = heapq.heappop(heap)
        offer = _offer_to(roles[role_id], walks[role_id], shares, quota, taken)
        if offer is None:
            continue
        made.append(offer)
        taken.add(offer.share.node_id)
        shares.charge(offer)
        quota.charge(roles[role_id], offer)
        heapq.heappush(heap, (shares.of_role(role_id), role_id))
    return tuple(made)


def _is_suitable(view: View, node: Node, framework: Framework, role: Role) -> bool:
    """True if the node can start the framework's jobs and takes jobs of its tenant."""
    return can_start(node, framework.needs) and admits_tenant(node, view.vc_by_id[role.vc_id].tenant_id)


def _drains_before(node: Node, moment: float) -> bool:
    """True if maintenance of the node begins by then, so that a job launched at the last moment could not stay."""
    return node.maintenance_starts_at is not None and node.maintenance_starts_at <= moment


@dataclass(slots=True)
class _NodeWalk:
    """A framework and the nodes not yet examined for it in this round. A node whose free resources it may not have now
    stays out of reach for the whole round, so each node is examined once.
    """

    framework: Framework
    nodes: Iterator[FreeNode]


def _eligible_nodes(
    framework: Framework, nodes: Iterable[FreeNode], refused: Collection[tuple[int, int]], unfit: Collection[int]
) -> Iterator[FreeNode]:
    return (node for node in nodes if (framework.id, node.id) not in refused and node.id not in unfit)


def _offer_to(
    role: Role, walks: list[_NodeWalk], shares: _ShareLedger, quota: _QuotaLedger, taken: Collection[int]
) -> Offer | None:
    """The next offer to a framework of the role, or None if no framework of it accepts any."""
    for walk in sorted(walks, key=lambda walk: (shares.of_framework(walk.framework.id), walk.framework.id)):
        for node in walk.nodes:
            if node.id in taken:
                continue
            share = quota.share(role, node)
            if share is not None:
                return Offer(walk.framework.id, share)
        walks.remove(walk)
    return None


class _ShareLedger:
    """Dominant shares of roles and frameworks."""

    def __init__(self, view: View, capacity: Capacity, roles: Mapping[int, Role], round_: OfferRound) -> None:
        self._view, self._roles = view, roles
        self._total: Vector = {**capacity.gpus, CPUS: capacity.cpus, MEMORY_MIB: capacity.memory_mib}
        self._held: dict[int, Counter[str]] = {}
        self._held_by_role: dict[int, Counter[str]] = {role_id: Counter() for role_id in roles}
        self._role_of: dict[int, int] = {}
        for one in round_.frameworks:
            if one.role_id in roles:
                self._role_of[one.id] = one.role_id
                self._held[one.id] = Counter(one.held)
                self._held_by_role[one.role_id].update(one.held)
        for offer in round_.standing:
            self.charge(offer)

    def of_role(self, role_id: int) -> float:
        """The dominant share of the role over its weight."""
        return dominant(self._held_by_role[role_id], self._total) / self._roles[role_id].weight

    def of_framework(self, framework_id: int) -> float:
        """The dominant share of the framework."""
        return dominant(self._held[framework_id], self._total)

    def charge(self, offer: Offer) -> None:
        """Count an offer as held."""
        role_id = self._role_of.get(offer.framework_id)
        if role_id is None:
            return
        for held in (self._held[offer.framework_id], self._held_by_role[role_id]):
            held.update(_types(self._view, offer.share))
            held[CPUS] += offer.share.cpus
            held[MEMORY_MIB] += offer.share.memory_mib


class _QuotaLedger:
    """The quota left to the virtual clusters of the roles; standing offers count as used."""

    def __init__(self, view: View, ledger: Ledger, roles: Mapping[int, Role], round_: OfferRound) -> None:
        self._view, self._ledger = view, ledger
        role_of = {one.id: roles[one.role_id] for one in round_.frameworks if one.role_id in roles}
        for offer in round_.standing:
            if offer.framework_id in role_of:
                self.charge(role_of[offer.framework_id], offer)

    def charge(self, role: Role, offer: Offer) -> None:
        """Count an offer as used."""
        self._ledger.take(_probe(self._view, role, "", 0), (offer.share,))

    def share(self, role: Role, node: FreeNode) -> AllocationView | None:
        """The free resources of the node that the role may have, or None without a GPU, or without CPUs or memory for
        it."""
        gpu_ids: list[int] = []
        for gpu_type in sorted(node.gpus):
            gpu_ids += self._admitted(role, node, gpu_type)
        if not gpu_ids:
            return None
        free_gpus = node.count(None)
        cpus, memory_mib = (amount * len(gpu_ids) // free_gpus for amount in (node.cpus, node.memory_mib))
        if not cpus or not memory_mib:
            return None
        return AllocationView(node.id, 0, tuple(gpu_ids), cpus, memory_mib)

    def _admitted(self, role: Role, node: FreeNode, gpu_type: str) -> Sequence[int]:
        """The ids of the most free GPUs of the type that the admission gives a job of the role on this node."""
        free, name = node.gpus[gpu_type], self._view.node_by_id[node.id].name
        allowed = self._ledger.nodes(_probe(self._view, role, gpu_type, 1))
        if allowed is not None and node.id not in allowed:
            return ()

        def granted(wanted: int) -> Grant | Denial:
            probe = _probe(self._view, role, gpu_type, wanted)
            here = replace(probe, request=replace(probe.request, nodes_in=(name,)))
            return self._ledger.offer(here, Config(gpu_type, wanted))

        def admits(wanted: int) -> bool:
            grant = granted(wanted)
            if isinstance(grant, Denial) or grant.evicts:
                return False
            return grant.gpu_ids is None or grant.gpu_ids <= set(free)

        most = _max_admitted(admits, len(free))
        grant = granted(most) if most else None
        if isinstance(grant, Grant) and grant.gpu_ids is not None:
            return sorted(grant.gpu_ids)
        return free[:most]


def _max_admitted(admits: Callable[[int], bool], most: int) -> int:
    """The largest number up to `most` that is admitted, 0 if none is; if a number is admitted, so are all below it."""
    least = 0
    while least < most:
        middle = (least + most + 1) // 2
        if admits(middle):
            least = middle
        else:
            most = middle - 1
    return least


def _probe(view: View, role: Role, gpu_type: str, gpus: int) -> Job:
    """A job as a framework of the role could launch it."""
    vc = view.vc_by_id.get(role.vc_id)
    return Job.of(
        id=0,
        tenant_id=vc.tenant_id if vc is not None else 0,
        vc_id=role.vc_id,
        owner_id=0,
        priority=0,
        job_class=JobClass.OPPORTUNISTIC if role.revocable else JobClass.GUARANTEED,
        gpu_type=gpu_type,
        gpus=gpus,
        nodes=1,
        cpus=1,
        memory_mib=1,
        submitted_at=0.0,
        eligible_at=0.0,
        time_limit_s=None,
        attained_gpu_s=0.0,
        avoid_nodes=(),
        preemptible=True,
        still_stopping=False,
    )


def _types(view: View, share: AllocationView) -> Counter[str]:
    """The number of GPUs of each type in the share."""
    return Counter(view.gpu_by_id[gpu_id].type for gpu_id in share.gpu_ids if gpu_id in view.gpu_by_id)
