"""One cycle: a guard, a policy and a placement composed into `decide(snapshot, config) -> plan`.

Production, dry runs, replays and tests call this same function. It reads nothing but its arguments and keeps nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from scheduler.codec import from_json, to_json
from scheduler.guard import GUARDS, Guard, Usage
from scheduler.lifecycle import HoldReason
from scheduler.model import Job, Snapshot
from scheduler.placement import PLACEMENTS, Placement, words
from scheduler.placement.capacity import Capacity
from scheduler.placement.free import Demand, Free
from scheduler.placement.shortage import Shortage
from scheduler.plan import Denial, Hold, Place, Plan
from scheduler.policies import POLICIES, Policy
from scheduler.registry import ConfigError


@dataclass(frozen=True, slots=True)
class CycleConfig:
    """How a pool decides: one plug-in of each kind by name, with its parameters."""

    policy: str = "fifo"
    policy_params: Mapping[str, object] = field(default_factory=dict)
    placement: str = "consolidate"
    placement_params: Mapping[str, object] = field(default_factory=dict)
    guard: str = "quota"
    guard_params: Mapping[str, object] = field(default_factory=dict)
    max_places: int = 256


@dataclass(frozen=True, slots=True)
class Composition:
    """The plug-ins that a configuration names, ready to be asked."""

    policy: Policy
    placement: Placement
    guard: Guard


@dataclass(frozen=True, slots=True)
class Forecast:
    """What would become of a job that is not submitted yet; `hold` is None when it `starts_now`.

    `feasible` and `fits_quota` ask whether it could ever start, each for itself; of a pool without nodes, whose types
    nobody knows yet, both are assumed.
    """

    feasible: bool
    fits_quota: bool
    starts_now: bool
    hold: Hold | None


def config_to_dict(config: CycleConfig) -> dict[str, Any]:
    """The configuration as plain JSON values."""
    return to_json(config)


def config_from_dict(data: object) -> CycleConfig:
    """The configuration that `config_to_dict` made `data` from."""
    return from_json(CycleConfig, data)


def compose(config: CycleConfig) -> Composition:
    """The plug-ins of the configuration; raises a `ConfigError` that names what is wrong with it."""
    if config.max_places < 1:
        raise ConfigError(f"max_places must be at least 1, not {config.max_places}")
    return Composition(
        policy=POLICIES.make(config.policy, config.policy_params),
        placement=PLACEMENTS.make(config.placement, config.placement_params),
        guard=GUARDS.make(config.guard, config.guard_params),
    )


def decide(snapshot: Snapshot, config: CycleConfig) -> Plan:
    """The plan for a snapshot: each job that waits is placed, or held with the reason."""
    return _Cycle(snapshot, config).plan()


def forecast(snapshot: Snapshot, config: CycleConfig, job: Job) -> Forecast:
    """What a cycle would do if `job` waited as well, or in the place of the one with its id."""
    others = [other for other in snapshot.waiting if other.id != job.id]
    cycle = _Cycle(replace(snapshot, waiting=tuple(sorted([*others, job], key=lambda waiting: waiting.id))), config)
    hold = next((hold for hold in cycle.plan().holds if hold.job_id == job.id), None)
    return Forecast(
        feasible=any(cycle.capacity.infeasible(demand) is None for demand in cycle.demands(job)),
        fits_quota=not snapshot.nodes
        or any(cycle.guard.admit(snapshot, Usage(), job, demand.gpu_type) is None for demand in cycle.demands(job)),
        starts_now=hold is None,
        hold=hold,
    )


# Waiting does not help against these, so nobody waits behind a job that is held for them.
_FOR_EVER = frozenset({HoldReason.INFEASIBLE, HoldReason.QUOTA_TOO_SMALL})


class _Failures:
    """The demands for which a cycle found no room; what is free only shrinks, so none of them is tried again."""

    def __init__(self) -> None:
        self.smallest: dict[str | None, list[Demand]] = {}

    def imply(self, demand: Demand) -> bool:
        """Whether the demand is at least as large, in everything, as one that failed."""
        _, gpus, nodes, cpus, memory_mib = demand
        return any(
            gpus >= failed.gpus and nodes >= failed.nodes and cpus >= failed.cpus and memory_mib >= failed.memory_mib
            for failed in self.smallest.get(demand.gpu_type, ())
        )

    def add(self, demand: Demand) -> None:
        """Remember a demand that failed and that the failures so far do not imply."""
        self.smallest.setdefault(demand.gpu_type, []).append(demand)


class _Cycle:
    """The scratch of one decision.

    1. In the order of the policy, each job has its turn: it is placed, or left.
    2. Then the hold of each job that was left is written against what is free and used after all places, so that the
       numbers of all holds agree with each other, and with what the pool shows once the plan is carried out.
    """

    def __init__(self, snapshot: Snapshot, config: CycleConfig) -> None:
        parts = compose(config)
        self.policy, self.placement, self.guard = parts.policy, parts.placement, parts.guard
        self.snapshot, self.max_places = snapshot, config.max_places
        self.free, self.capacity = Free(snapshot), Capacity(snapshot)
        self.usage = Usage(snapshot.held_by_vc)
        self.places: list[Place] = []
        self.failures = _Failures()
        self.head_of_pool: Job | None = None
        self.head_of_vc: dict[int, Job] = {}
        self.waits_behind: dict[int, Job] = {}  # job id -> the head that it may not pass
        self.too_late: set[int] = set()  # ids of the jobs whose turn came after the last place of this cycle
        self.shortage = Shortage(self.free, self.capacity)

    def plan(self) -> Plan:
        """The plan of this cycle; to be asked once."""
        left = [job for job in self.policy.order(self.snapshot) if not self.place(job)]
        return Plan(places=tuple(self.places), holds=self.holds(left))

    def place(self, job: Job) -> bool:
        """Whether the job was placed in its turn."""
        admitted, denial = self.entitled(job)
        if (denial is not None and denial.reason in _FOR_EVER) or self.not_yet(job):
            return False
        head = self.head_of_pool or self.head_of_vc.get(job.vc_id)
        if head is not None:
            self.waits_behind[job.id] = head
            return False
        for demand in admitted:
            if self.failures.imply(demand):
                continue
            if len(self.places) >= self.max_places:
                self.too_late.add(job.id)
                return False
            if self.place_as(job, demand):
                return True
            self.failures.add(demand)
        if not self.policy.lets_pass(self.snapshot, job):
            if admitted:
                self.head_of_pool = job
            else:  # only its own virtual cluster can free the quota that it lacks, so no other has to wait with it
                self.head_of_vc[job.vc_id] = job
        return False

    def place_as(self, job: Job, demand: Demand) -> bool:
        """Whether the placement found room for the job; if so, it is taken."""
        allocations = self.placement.place(self.free, demand, job.avoid_nodes)
        if allocations is None:
            return False
        self.free.take(allocations)
        if demand.gpu_type is not None:
            self.usage[job.vc_id, demand.gpu_type] += demand.gpus * demand.nodes
        self.places.append(Place(job.id, allocations))
        return True

    def holds(self, left: Sequence[Job]) -> tuple[Hold, ...]:
        """One hold for each job that was left, in the order of the policy."""
        positions: Counter[int] = Counter()
        holds = []
        for job in left:
            positions[job.vc_id] += 1
            why = self.why(job)
            holds.append(Hold(job.id, why.reason, why.detail, why.evidence, why.helps, positions[job.vc_id]))
        return tuple(holds)

    def why(self, job: Job) -> Denial:
        """The dominant reason why the job was left: what waiting helps least comes first."""
        admitted, denial = self.entitled(job)
        if denial is not None and denial.reason in _FOR_EVER:
            return denial
        early = self.not_yet(job)
        if early is not None:
            return early
        if job.id in self.waits_behind:
            return _behind(job, self.waits_behind[job.id])
        if denial is not None:
            return denial
        if job.id in self.too_late:
            return _cycle_limit(self.max_places)
        return self.shortage.of(admitted[0])

    def entitled(self, job: Job) -> tuple[Sequence[Demand], Denial | None]:
        """What the job may have as far as pool and guard go, the type with the most free GPUs first; or why nothing."""
        demands = self.demands(job)
        if not self.snapshot.nodes:
            return demands, None  # which fail for want of nodes: that is what the job waits for
        denials, admitted = [], []
        for demand in demands:
            denial = self.capacity.infeasible(demand) or self.guard.admit(
                self.snapshot, self.usage, job, demand.gpu_type
            )
            if denial is None:
                admitted.append(demand)
            else:
                denials.append(denial)
        if not admitted:
            # Of several types, the one that is not denied for ever says what the job waits for.
            return (), min(denials, key=lambda denial: denial.reason in _FOR_EVER)
        if len(admitted) > 1:
            admitted.sort(key=lambda demand: (-self.free.gpus(demand.gpu_type), demand.gpu_type))
        return admitted, None

    def demands(self, job: Job) -> Sequence[Demand]:
        """The job's demand for each GPU type that will do."""
        types: Sequence[str | None]
        if not job.gpus:
            types = (None,)
        elif job.gpu_type is not None:
            types = (job.gpu_type,)
        else:
            types = self.capacity.types or ("any",)
        return [Demand(gpu_type, job.gpus, job.nodes, job.cpus, job.memory_mib) for gpu_type in types]

    def not_yet(self, job: Job) -> Denial | None:
        """Why it is too early to look at the job, or None when it is not."""
        if job.still_stopping:
            return Denial(
                HoldReason.STILL_STOPPING,
                "the last attempt of this job has not released all its nodes",
                {},
                ("its last processes end, or are known to have ended",),
            )
        if job.eligible_at > self.snapshot.now:
            # A moment, not a countdown: a hold that changes each cycle would be written each cycle.
            moment = datetime.fromtimestamp(job.eligible_at, UTC).isoformat(timespec="seconds")
            return Denial(
                HoldReason.BACK_OFF,
                f"this job does not start before {moment}",
                {"eligible_at": job.eligible_at},
                ("that moment passes",),
            )
        return None


def _behind(job: Job, head: Job) -> Denial:
    if head.vc_id != job.vc_id:  # whose job it is, and which, is not for other tenants to know
        return Denial(
            HoldReason.BEHIND_HEAD,
            "a job of another virtual cluster is ahead in this pool and may not be passed",
            {},
            ("the job ahead starts or leaves the queue",),
        )
    return Denial(
        HoldReason.BEHIND_HEAD,
        f"job {head.id} is ahead and may not be passed",
        {"head_job_id": head.id},
        (f"job {head.id} starts or leaves the queue",),
    )


def _cycle_limit(max_places: int) -> Denial:
    return Denial(
        HoldReason.CYCLE_LIMIT,
        f"this cycle started {words.count(max_places, 'job')}, its limit, before the turn of this one",
        {"max_places": max_places},
        ("the next cycle goes on from here",),
    )
