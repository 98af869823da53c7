"""The invariants of plans. `check` returns every violation in a plan, whatever policy made it.

Tests and the applier call the same function. The applier passes a small snapshot of the rows that it has locked: the
nodes of the plan with all attempts on them, and the attempts of the plan's virtual clusters. With the indexes of the
snapshot in place, the cost grows with the plan alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from scheduler.model import AllocationView, Gpu, Job, Node, Running, View
from scheduler.model.caps import Owner, caps_by_owner, owner_of
from scheduler.model.eligibility import admits_tenant, can_start, forbidden_by, ineligible_reason
from scheduler.model.plan import Place, Plan
from scheduler.model.request import Choice, Request
from scheduler.model.sharing import may_share


class Code(StrEnum):
    """The kinds of violations; admissions add codes of their own."""

    JOB_NOT_WAITING = "job_not_waiting"
    JOB_NOT_ELIGIBLE = "job_not_eligible"
    PARTIAL_GANG = "partial_gang"
    TWO_ALLOCATIONS_ONE_NODE = "two_allocations_one_node"
    WRONG_GPU_COUNT = "wrong_gpu_count"
    WRONG_GPU_TYPE = "wrong_gpu_type"
    WRONG_CPUS_OR_MEMORY = "wrong_cpus_or_memory"
    WRONG_SLOTS = "wrong_slots"
    NODE_NOT_SCHEDULABLE = "node_not_schedulable"
    NODE_NOT_ALLOWED = "node_not_allowed"
    WRONG_RUNTIME = "wrong_runtime"
    WRONG_TENANT = "wrong_tenant"
    MAINTENANCE = "maintenance"
    GPU_UNKNOWN = "gpu_unknown"
    GPU_UNHEALTHY = "gpu_unhealthy"
    GPU_TAKEN = "gpu_taken"
    GPU_TWICE = "gpu_twice"
    CPU_OVERCOMMIT = "cpu_overcommit"
    MEMORY_OVERCOMMIT = "memory_overcommit"
    GPU_RESERVED = "gpu_reserved"
    NOT_RUNNING = "not_running"
    NOT_PREEMPTIBLE = "not_preemptible"
    NEEDLESS_PREEMPTION = "needless_preemption"
    GPU_CHANGED = "gpu_changed"
    FOREIGN_VICTIM = "foreign_victim"
    VICTIM_CHANGED = "victim_changed"
    RACK_CHANGED = "rack_changed"
    CAP_EXCEEDED = "cap_exceeded"


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken invariant, of one job in a plan."""

    code: str
    job_id: int
    message: str


class PlanValidator(Protocol):
    """Adds violations of its own rules to those of the invariants."""

    def violations(self, view: View, plan: Plan) -> Iterable[Violation]:
        """The violations of the quota rules in the plan."""

    def may_evict(self, view: View, running: Job, waiting: Job) -> bool:
        """True if the waiting job, once admitted, may preempt a job on which another planner decides."""


def check(view: View, plan: Plan, admission: PlanValidator) -> tuple[Violation, ...]:
    """All violations in the plan: its preemptions, its places, the caps, then its quotas. Empty: the plan is valid."""
    claims = _Claims(drops=frozenset(plan.drops))
    found = [*_against_preemptions(view, plan, claims, admission)]
    for place in plan.places:
        found += _violations(view, place, claims)
    found += _against_caps(view, plan)
    return (*found, *admission.violations(view, plan))


def awaits_preemption(view: View, plan: Plan, admission: PlanValidator) -> frozenset[int]:
    """The ids of the placed jobs that cannot start before other jobs have stopped; the plan is valid.

    These are the jobs that the plan preempts others for, and the jobs whose places are valid only without the
    preempted jobs.
    """
    gaining = {preempt.for_job_id for preempt in plan.preempts}
    waiting = {place.job_id for place in plan.places if place.job_id in gaining}
    if not plan.preempts:
        return frozenset(waiting)
    while True:
        rest = tuple(place for place in plan.places if place.job_id not in waiting)
        found = {violation.job_id for violation in check(view, Plan(rest, (), drops=plan.drops), admission)}
        if not found:
            return frozenset(waiting)
        waiting |= found


def changed_since(seen: View, view: View, plan: Plan) -> tuple[Violation, ...]:
    """Changes since `seen` that spoil the plan and that `check` does not see: other GPU types, racks and victims.

    A GPU of another type may still fit the job, and another attempt of a victim may be preemptible; but the policy
    chose neither. A victim that holds less than it did may not be needed any more.
    """
    found: list[Violation] = []
    for place in plan.places:
        if len(_racks(seen, place)) == 1 < len(_racks(view, place)):
            message = "the nodes that the plan chose are not in one rack any more"
            found.append(Violation(Code.RACK_CHANGED, place.job_id, message))
        for gpu_id in (gpu_id for share in place.allocations for gpu_id in share.gpu_ids):
            was, gpu = seen.gpu_by_id.get(gpu_id), view.gpu_by_id.get(gpu_id)
            if was is not None and gpu is not None and was.type != gpu.type:
                node = view.node_by_id[gpu.node_id].name
                message = f"GPU {gpu.index} of {node} has the type {gpu.type} now; the plan chose it as {was.type}"
                found.append(Violation(Code.GPU_CHANGED, place.job_id, message))
    for preempt in plan.preempts:
        chosen, attempt = seen.running_by_job.get(preempt.job_id), view.running_by_job.get(preempt.job_id)
        if chosen is None or attempt is None or attempt.stopping:
            continue  # `check` refuses a victim that does not run
        if attempt.attempt_id != chosen.attempt_id:
            message = "another attempt of this job runs than the plan chose to preempt"
            found.append(Violation(Code.VICTIM_CHANGED, preempt.job_id, message))
        elif attempt.allocations != chosen.allocations:
            message = "this job has released resources since the plan chose to preempt it"
            found.append(Violation(Code.VICTIM_CHANGED, preempt.job_id, message))
    return tuple(found)


def _racks(view: View, place: Place) -> set[str]:
    return {view.node_by_id[one.node_id].rack for one in place.allocations if one.node_id in view.node_by_id}


@dataclass(slots=True)
class _Claims:
    """The resources that the checked places take, and those that the plan's preemptions free."""

    jobs: set[int] = field(default_factory=set)
    gpus: dict[int, list[Job | None]] = field(default_factory=dict)  # the jobs that get each; None: an unknown job
    cpus: dict[int, int] = field(default_factory=dict)
    memory_mib: dict[int, int] = field(default_factory=dict)
    preempted: set[int] = field(default_factory=set)
    freed: dict[int, tuple[int, int]] = field(default_factory=dict)  # CPUs and MiB by node
    drops: frozenset[int] = frozenset()


def _against_preemptions(view: View, plan: Plan, claims: _Claims, admission: PlanValidator) -> Iterator[Violation]:
    placed = {place.job_id for place in plan.places}
    for preempt in plan.preempts:
        attempt = view.running_by_job.get(preempt.job_id)
        if attempt is None or attempt.stopping or preempt.job_id in claims.preempted:
            yield Violation(Code.NOT_RUNNING, preempt.job_id, "this job has no running attempt to preempt")
            continue
        beneficiary = preempt.for_job_id
        if not attempt.evictable:
            yield Violation(Code.NOT_PREEMPTIBLE, preempt.job_id, "this job may not be preempted")
        elif attempt.foreign and not _may_evict(view, attempt, beneficiary, admission):
            message = "another planner decides on this job, and the admission does not let its GPUs be reclaimed"
            yield Violation(Code.FOREIGN_VICTIM, preempt.job_id, message)
        if beneficiary is not None and beneficiary not in placed and not _beside(view, attempt, beneficiary):
            message = f"preempted for job {beneficiary}, which the plan does not place and which shares no GPU with it"
            yield Violation(Code.NEEDLESS_PREEMPTION, preempt.job_id, message)
        claims.preempted.add(preempt.job_id)
        for share in attempt.allocations:
            cpus, memory_mib = claims.freed.get(share.node_id, (0, 0))
            claims.freed[share.node_id] = (cpus + share.cpus, memory_mib + share.memory_mib)


def _may_evict(view: View, attempt: Running, job_id: int | None, admission: PlanValidator) -> bool:
    job = None if job_id is None else view.waiting_by_id.get(job_id)
    return job is not None and admission.may_evict(view, attempt.job, job)


def _beside(view: View, attempt: Running, job_id: int) -> bool:
    """True if the other job shares GPUs with this attempt, and so gains from its end."""
    gpu_ids = (gpu_id for share in attempt.allocations for gpu_id in share.gpu_ids)
    return job_id != attempt.job.id and any(job_id in view.holders_of_gpu.get(gpu_id, ()) for gpu_id in gpu_ids)


def _violations(view: View, place: Place, claims: _Claims) -> Iterator[Violation]:
    job = view.waiting_by_id.get(place.job_id)
    if job is None and place.job_id in claims.preempted:  # the job moves, or changes its size
        job = view.running_by_job[place.job_id].job
    if place.job_id in claims.jobs:
        yield Violation(Code.JOB_NOT_WAITING, place.job_id, "the plan places this job twice")
    elif job is None:
        yield Violation(Code.JOB_NOT_WAITING, place.job_id, "this job is not waiting")
    else:
        yield from _against_the_job(view, job, place)
    claims.jobs.add(place.job_id)
    for share in place.allocations:
        yield from _against_the_node(view, place.job_id, job, share, claims)


def _against_the_job(view: View, job: Job, place: Place) -> Iterator[Violation]:
    """The ways in which the place differs from the request of its job."""
    if job.eligible_at > view.now:
        yield Violation(
            Code.JOB_NOT_ELIGIBLE, job.id, f"this job may not start for another {job.eligible_at - view.now:.3g} s"
        )
    if job.still_stopping:
        yield Violation(Code.JOB_NOT_ELIGIBLE, job.id, "the last attempt of this job is still stopping")

    request = job.request
    any_number = request.divisible or request.over_gang
    wanted_ranks = max(1, len(place.allocations)) if any_number else request.nodes
    ranks = sorted(share.rank for share in place.allocations)
    if ranks != list(range(wanted_ranks)):
        message = f"the gang needs ranks 0 to {wanted_ranks - 1} once each, not {ranks}"
        yield Violation(Code.PARTIAL_GANG, job.id, message)
    nodes = [share.node_id for share in place.allocations]
    if len(set(nodes)) < len(nodes):
        yield Violation(Code.TWO_ALLOCATIONS_ONE_NODE, job.id, f"two ranks share a node: {sorted(nodes)}")

    types = sorted(
        {
            view.gpu_by_id[gpu_id].type
            for share in place.allocations
            for gpu_id in share.gpu_ids
            if gpu_id in view.gpu_by_id
        }
    )
    choice = request.choice_of(types[0] if types else None)
    if len(types) > 1 or (types and choice is None):
        wanted = " or ".join(request.gpu_types) or "one type"
        yield Violation(Code.WRONG_GPU_TYPE, job.id, f"the gang needs {wanted}, not {', '.join(types)}")
    yield from _against_the_sizes(job, place, choice or request.first)


def _against_the_sizes(job: Job, place: Place, choice: Choice) -> Iterator[Violation]:
    """The ranks with the wrong number of GPUs, CPUs, MiB or slots for the choice."""
    request = job.request
    counts = [len(share.gpu_ids) for share in place.allocations]
    of_gang = request.divisible or request.over_gang
    gpus = sum(counts) if request.divisible else max(counts, default=choice.gpus)
    is_size = request.has_size(choice, sum(counts) if of_gang else gpus * request.nodes)
    if of_gang and not (is_size and all(counts)):
        message = f"the gang gets {sum(counts)} GPUs, not {_sizes(request, choice)}"
        yield Violation(Code.WRONG_GPU_COUNT, job.id, message)
    for share in place.allocations if not request.divisible else ():
        if len(share.gpu_ids) != gpus or not (is_size or of_gang):
            wanted = str(gpus) if of_gang else _sizes(request, choice)
            message = f"rank {share.rank} gets {len(share.gpu_ids)} GPUs, not {wanted}"
            yield Violation(Code.WRONG_GPU_COUNT, job.id, message)
    size = request.resized(choice, gpus) if is_size else choice
    for share in place.allocations:
        lots = len(share.gpu_ids) if request.divisible else 1
        cpus, memory_mib = size.cpus * lots, size.memory_mib * lots
        if (share.cpus, share.memory_mib) != (cpus, memory_mib):
            message = (
                f"rank {share.rank} gets {share.cpus} CPUs and {share.memory_mib} MiB, not {cpus} and {memory_mib}"
            )
            yield Violation(Code.WRONG_CPUS_OR_MEMORY, job.id, message)
        if share.slots != job.slots:
            message = f"rank {share.rank} gets {share.slots} slots of each of its GPUs, not {job.slots}"
            yield Violation(Code.WRONG_SLOTS, job.id, message)


def _sizes(request: Request, choice: Choice) -> str:
    """The numbers of GPUs that the request accepts in this choice, such as `4` or `1 to 8`."""
    sizes = [gpus if request.over_gang else gpus // request.nodes for gpus in request.sizes(choice)]
    least, most = min(sizes), max(sizes)
    return str(most) if least == most else f"{least} to {most}"


def _against_the_node(
    view: View, job_id: int, job: Job | None, share: AllocationView, claims: _Claims
) -> Iterator[Violation]:
    """The resources that the allocation takes and its node does not have free."""
    node = view.node_by_id.get(share.node_id)
    if node is None:
        yield Violation(Code.NODE_NOT_SCHEDULABLE, job_id, f"node {share.node_id} is not in this pool")
        return
    if not node.schedulable:
        yield Violation(Code.NODE_NOT_SCHEDULABLE, job_id, f"{node.name} takes no jobs: {node.unschedulable_reason}")
    if job is not None and (why := ineligible_reason(node, job, view.now)):
        yield Violation(_code_of_ineligible(node, job), job_id, why)

    for gpu_id in share.gpu_ids:
        gpu = view.gpu_by_id.get(gpu_id)
        if gpu is None or gpu.node_id != node.id:
            yield Violation(Code.GPU_UNKNOWN, job_id, f"{node.name} has no GPU {gpu_id}")
            continue
        yield from _against_the_gpu(view, job_id, job, gpu, claims)
    yield from _against_cpus_and_memory(view, job_id, node, share, claims)


def _code_of_ineligible(node: Node, job: Job) -> Code:
    if forbidden_by(job.request, node):
        return Code.NODE_NOT_ALLOWED
    if not can_start(node, job.request.runtime):
        return Code.WRONG_RUNTIME
    return Code.MAINTENANCE if admits_tenant(node, job.tenant_id) else Code.WRONG_TENANT


def _against_the_gpu(view: View, job_id: int, job: Job | None, gpu: Gpu, claims: _Claims) -> Iterator[Violation]:
    node = view.node_by_id[gpu.node_id]
    if not gpu.healthy:
        yield Violation(Code.GPU_UNHEALTHY, job_id, f"GPU {gpu.index} of {node.name} is not healthy")
    holders = view.holders_of_gpu.get(gpu.id, ())
    there = [view.running_by_job[holder].job for holder in holders if holder not in claims.preempted]
    if there and (job is None or not may_share(gpu, [job, *there])):
        message = f"GPU {gpu.index} of {node.name} is held by a live attempt"
        if job is not None and job.request.shares_gpu and all(other.request.shares_gpu for other in there):
            message += " with which this job may not share it"
        yield Violation(Code.GPU_TAKEN, job_id, message)
    keeper = view.reserved_gpus.get(gpu.id, job_id)
    if keeper != job_id and keeper not in claims.drops:
        yield Violation(Code.GPU_RESERVED, job_id, f"GPU {gpu.index} of {node.name} is reserved for another job")
    given = claims.gpus.setdefault(gpu.id, [])
    known = [other for other in given if other is not None]
    alone = job is None or len(known) < len(given) or any(other.id == job_id for other in known)
    if given and (alone or job is None or not may_share(gpu, [job, *there, *known])):
        yield Violation(Code.GPU_TWICE, job_id, f"the plan gives GPU {gpu.index} of {node.name} twice")
    given.append(job)


def _against_cpus_and_memory(
    view: View, job_id: int, node: Node, share: AllocationView, claims: _Claims
) -> Iterator[Violation]:
    used_cpus, used_memory_mib = view.used_by_node.get(node.id, (0, 0))
    freed_cpus, freed_memory_mib = claims.freed.get(node.id, (0, 0))
    used_cpus, used_memory_mib = used_cpus - freed_cpus, used_memory_mib - freed_memory_mib
    cpus = claims.cpus[node.id] = claims.cpus.get(node.id, 0) + share.cpus
    memory_mib = claims.memory_mib[node.id] = claims.memory_mib.get(node.id, 0) + share.memory_mib
    # A rank without CPUs or memory may run on an overcommitted node, such as one whose inventory shrank.
    if share.cpus and used_cpus + cpus > node.cpus:
        message = f"{node.name} has {node.cpus} CPUs; {used_cpus} are used and the plan takes {cpus}"
        yield Violation(Code.CPU_OVERCOMMIT, job_id, message)
    if share.memory_mib and used_memory_mib + memory_mib > node.memory_mib:
        message = f"{node.name} has {node.memory_mib} MiB; {used_memory_mib} are used and the plan takes {memory_mib}"
        yield Violation(Code.MEMORY_OVERCOMMIT, job_id, message)


def _against_caps(view: View, plan: Plan) -> Iterator[Violation]:
    """The placed jobs with which their owners would hold more than their caps allow.

    What the plan preempts does not count. A job may move although its owner's cap was lowered.
    """
    caps = caps_by_owner(view.caps)
    if not caps:
        return
    held: defaultdict[Owner, dict[int, int]] = defaultdict(dict)
    for run in view.running:
        held[owner_of(run.job)][run.job_id] = run.gpus
    before = {owner: (sum(jobs.values()), len(jobs)) for owner, jobs in held.items()}
    for preempt in plan.preempts:
        gone = view.running_by_job.get(preempt.job_id)
        if gone is not None:
            held[owner_of(gone.job)].pop(gone.job_id, None)
    for place in plan.places:
        run_of = view.running_by_job.get(place.job_id)
        job = view.waiting_by_id.get(place.job_id) or (run_of.job if run_of else None)
        cap = None if job is None else caps.get(owner_of(job))
        if job is None or cap is None:
            continue
        owner = owner_of(job)
        held[owner][job.id] = sum(len(share.gpu_ids) for share in place.allocations)
        had_gpus, had_jobs = before.get(owner, (0, 0))
        gpus, jobs = sum(held[owner].values()), len(held[owner])
        if cap.gpus is not None and gpus > had_gpus and gpus + cap.gpus_elsewhere > cap.gpus:
            yield Violation(
                Code.CAP_EXCEEDED,
                job.id,
                f"{cap.owner} would hold {gpus + cap.gpus_elsewhere} GPUs; the cap is {cap.gpus}",
            )
        elif cap.jobs is not None and jobs > had_jobs and jobs + cap.jobs_elsewhere > cap.jobs:
            yield Violation(
                Code.CAP_EXCEEDED,
                job.id,
                f"{cap.owner} would run {jobs + cap.jobs_elsewhere} jobs; the cap is {cap.jobs}",
            )
        elif cap.used_up and run_of is None:
            yield Violation(
                Code.CAP_EXCEEDED, job.id, f"{cap.owner} has used the {cap.gpu_hours_month:g} GPU-hours of this month"
            )
