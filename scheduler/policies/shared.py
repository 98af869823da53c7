"""The base of policies that share the pool between groups of jobs: the group furthest behind is served next."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from scheduler.authoring import BasePolicy, Job, JobClass, Key, Running, View
from scheduler.workshop import (
    CPUS,
    MEMORY_MIB,
    UNSCHEDULABLE,
    Capacity,
    CycleContext,
    Demand,
    Denial,
    GivenDemands,
    QueueWalk,
    ResourceUsage,
    Vector,
    demand_of,
    equivalence_class,
    gpus_by_type,
)

Grouper = Callable[[Job], int]
# Jobs that were not placed, with the demands for which they may preempt: the first of each group and class, or by id if
# jobs of a class differ.
_Unplaced = dict[Hashable, tuple[Job, Sequence[Demand]]]


class ShareLedger:
    """The share ledger: what each group holds during one decision. A policy's `key` orders the groups."""

    def __init__(self, view: View, capacity: Capacity, usage: ResourceUsage, group_of: Grouper) -> None:
        self.view, self.group_of = view, group_of
        self.total: Vector = {**capacity.gpus, CPUS: capacity.cpus, MEMORY_MIB: capacity.memory_mib}
        self.used: defaultdict[int, Counter[str]] = defaultdict(Counter)
        self.used_by_user: defaultdict[tuple[int, int], Counter[str]] = defaultdict(Counter)
        self.stopping_gpus = usage.stopping_gpus
        self._usage = usage
        self._runs: dict[int, list[Running]] | None = None
        self._newest: dict[int, Sequence[Running]] = {}
        for example, held in usage:
            self.charge(example, held, 1)
        for kept in view.reservations:
            job = view.waiting_by_id.get(kept.job_id)
            if job is not None and kept.until > view.now:
                self.charge(job, gpus_by_type(view, [share.gpu_ids for share in kept.allocations]), 1)

    @property
    def runs(self) -> Mapping[int, Sequence[Running]]:
        """The preemptible runs by group."""
        if self._runs is None:
            self._runs = {}
            for run in self.view.running:
                if run.job.preemptible and not run.stopping:
                    self._runs.setdefault(self.group_of(run.job), []).append(run)
        return self._runs

    def key(self, group: int) -> Key:
        """The position of the group, smaller first; its holdings can only raise it."""
        raise NotImplementedError

    def limit(self, job: Job, demand: Demand) -> Denial | None:
        """The reason that the shares deny the job this demand though it is free, or None."""
        return None

    def groups_at_limit(self, job: Job, demand: Demand) -> Collection[int] | None:
        """The groups under the limit that denies the job the demand; None unless a limit of several groups does.

        The job can have the demand once one of these groups holds less.
        """
        return None

    def may_take(self, job: Job, demand: Demand, waited_s: float) -> bool:
        """True if the job, in whose group a job has waited this long, may preempt groups that exceed their share."""
        return False

    def excess(self, group: int, job: Job, demand: Demand, run: Running) -> float:
        """The group's excess over its share; only if positive may it lose the run to the job.

        It depends on the run, and on the holdings of the families of the group and of the job's group.
        """
        return 0.0

    def family(self, group: int) -> Hashable:
        """The key shared by all groups whose `excess` the group's holdings may change; by default its own."""
        return group

    def charge(self, job: Job, vector: Vector, times: int) -> None:
        """Add to the holdings of the group and the user of a job, or subtract with `times` -1."""
        group = self.group_of(job)
        for used in (self.used[group], self.used_by_user[group, job.owner_id]):
            for resource, amount in vector.items():
                used[resource] += times * amount

    def held(self, run: Running) -> Vector:
        """The resources of a running job."""
        return self._usage.of(run)

    def newest(self, group: int) -> Sequence[Running]:
        """The preemptible runs of a group, newest first."""
        if group not in self._newest:
            self._newest[group] = sorted(self.runs.get(group, ()), key=lambda run: (-run.placed_at, -run.job.id))
        return self._newest[group]


def requested(demand: Demand) -> Vector:
    """All resources of a demand."""
    lots = demand.gpus if demand.divisible else demand.nodes
    vector = {CPUS: demand.cpus * lots, MEMORY_MIB: demand.memory_mib * lots}
    if demand.gpu_type is not None:
        vector[demand.gpu_type] = demand.gpus * demand.nodes
    return vector


def dominant(vector: Vector, total: Vector) -> float:
    """The largest share of any resource (Ghodsi et al., NSDI 2011, §4.1); one that the pool lacks counts as 1."""
    shares = (amount / total[resource] if total.get(resource) else 1.0 for resource, amount in vector.items() if amount)
    return max(shares, default=0.0)


class DominantShares(ShareLedger):
    """Dominant shares by weight; a group without a weight has 1."""

    def __init__(
        self, view: View, capacity: Capacity, usage: ResourceUsage, group_of: Grouper, weights: Mapping[int, float]
    ) -> None:
        super().__init__(view, capacity, usage, group_of)
        self._weights = weights

    def key(self, group: int) -> Key:
        """The dominant share over the weight."""
        return (self._share(self.used.get(group, {}), group),)

    def may_take(self, job: Job, demand: Demand, waited_s: float) -> bool:
        """Always; `excess` selects the groups."""
        return True

    def excess(self, group: int, job: Job, demand: Demand, run: Running) -> float:
        """The group's share, if without the run it is no smaller than that of the preempting group with the job."""
        used, held = self.used[group], self.held(run)
        taker = self.group_of(job)
        without = {resource: amount - held.get(resource, 0) for resource, amount in used.items()}
        have: Vector = self.used.get(taker, {})
        asked = requested(demand)
        then = {resource: have.get(resource, 0) + asked.get(resource, 0) for resource in {*have, *asked}}
        fair = self._share(without, group) >= self._share(then, taker)
        return self._share(used, group) if fair else 0.0

    def _share(self, used: Vector, group: int) -> float:
        weight = self._weights.get(group, 1.0)
        return dominant(used, self.total) / weight if weight > 0 else float("inf")


def weights_of_vcs(view: View) -> Mapping[int, float]:
    """The weight of each virtual cluster's tenant."""
    of_tenant = {tenant.id: tenant.weight for tenant in view.tenants}
    return {vc.id: of_tenant.get(vc.tenant_id, 1.0) for vc in view.vcs}


@dataclass(frozen=True, slots=True)
class Shared(BasePolicy):
    """A policy defined by its groups and their ledger.

    1. The next job, in its own order, of the group with the smallest key is placed, if it finds room; if not, the next
       job of the same group is tried. A group without jobs left is done.
    2. Then jobs that found no room, and are entitled to more, preempt runs beyond their group's share, at most
       `preemption_share` of the pool's GPUs at a time.
    """

    def group_of(self, job: Job) -> int:
        """The group of the job, by default its virtual cluster; jobs of one owner there are in one group."""
        return job.vc_id

    def ledger(self, view: View, capacity: Capacity, usage: ResourceUsage) -> ShareLedger:
        """The ledger of a decision, from the holdings in the view."""
        raise NotImplementedError

    @property
    def preemption_share(self) -> float:
        """The share of all GPUs that may be stopping at a time because of a preemption; 0: none."""
        return 0.0

    @property
    def preemptive(self) -> bool:
        """True if it stops running jobs for waiting ones."""
        return self.preemption_share > 0

    def try_place(self, context: CycleContext, ledger: ShareLedger, job: Job, demand: Demand) -> bool:
        """Place the job; True if it found room."""
        return context.place(job, (demand,))

    def finish(self, context: CycleContext, ledger: ShareLedger) -> None:
        """Finish the decision."""

    def class_varies(self, context: CycleContext, job: Job) -> bool:
        """True if another job with the same demands may find room where this one found none."""
        return context.placement.relaxes

    def order(self, view: View) -> Iterable[Job]:
        """The order in which the jobs would be served if each found room."""
        ledger = self.ledger(view, Capacity(view), ResourceUsage(view))
        lines: dict[int, list[Job]] = {}
        for job in sorted(view.waiting, key=lambda job: (self.waiting_key(job), job.id), reverse=True):
            lines.setdefault(self.group_of(job), []).append(job)
        first_types = sorted(set(ledger.total) - {CPUS, MEMORY_MIB})[:1]
        heap = [(ledger.key(group), group) for group in lines]
        heapq.heapify(heap)
        while heap:
            key, group = heap[0]
            if (now := ledger.key(group)) != key:
                heapq.heapreplace(heap, (now, group))
                continue
            job = lines[group].pop()
            yield job
            choice = job.request.choices_among(first_types)[0]
            demand = demand_of(job.request, choice)
            ledger.charge(job, requested(demand), 1)
            if lines[group]:
                heapq.heapreplace(heap, (ledger.key(group), group))
            else:
                heapq.heappop(heap)

    def serve(self, context: CycleContext) -> None:
        ledger = self.ledger(context.view, context.state.capacity, context.state.resource_usage)
        unplaced: _Unplaced = {}
        for job_class in context.service_classes():
            self._fill(context, ledger, unplaced, job_class)
        if self.preemption_share > 0:
            self._preempt(context, ledger, unplaced)
        self.finish(context, ledger)

    def _fill(
        self, context: CycleContext, ledger: ShareLedger, unplaced: _Unplaced, job_class: JobClass | None
    ) -> None:
        """Place the jobs that find room, the group furthest behind first."""
        walks = self.walks(context, ledger, job_class)
        heap = [(ledger.key(group), group) for group in walks]
        heapq.heapify(heap)
        while heap:
            key, group = heapq.heappop(heap)
            # Placements may have moved the group: then it is re-inserted at its new position.
            if (now := ledger.key(group)) > key:
                heapq.heappush(heap, (now, group))
            elif self._next(context, ledger, walks[group], unplaced):
                heapq.heappush(heap, (ledger.key(group), group))

    def walks(self, context: CycleContext, ledger: ShareLedger, job_class: JobClass | None) -> Mapping[int, QueueWalk]:
        """The jobs to try of each group, in order."""
        queues = context.state.queues(self)
        return {group: queues[group].walk(job_class) for group in queues}

    def _next(self, context: CycleContext, ledger: ShareLedger, walk: QueueWalk, unplaced: _Unplaced) -> bool:
        """Place another job of the group; False if none was placed."""
        while (entry := walk.next()) is not None:
            job = entry[0]
            if job.id in context.places or job.id in context.reserved:
                continue
            admitted, denial = context.admissible(job)
            if denial is not None and denial.reason in UNSCHEDULABLE:
                walk.drop()
                continue
            allowed = [demand for demand in admitted if ledger.limit(job, demand) is None]
            for demand in allowed:
                if self.try_place(context, ledger, job, demand):
                    ledger.charge(job, requested(demand), 1)
                    return True
            lacks_quota = context.admission.reclaims and not admitted
            demands = context.demands(job) if lacks_quota else ()
            lacking = [demand for demand in demands if ledger.limit(job, demand) is None]
            if (allowed or lacking) and self._reclaim(context, ledger, job, allowed, lacking):
                return True
            if job.id in context.deferred:
                if not context.explain:
                    return False
                continue
            if allowed:
                context.keep_free(job, allowed[0])
            if allowed and self.class_varies(context, job):
                unplaced[job.id] = (job, allowed)
            elif allowed:
                unplaced[self.group_of(job), equivalence_class(job), context.ledger.key(job)] = (job, allowed)
                walk.drop()
            elif admitted and self._limited(context, ledger, job, admitted, unplaced) and not context.explain:
                walk.drop()
        return False

    def _limited(
        self, context: CycleContext, ledger: ShareLedger, job: Job, admitted: Sequence[Demand], unplaced: _Unplaced
    ) -> bool:
        """Note why the limits deny the job all demands; returns whether they deny its whole class."""
        context.pending_reasons[job.id] = next(
            limit for demand in admitted if (limit := ledger.limit(job, demand)) is not None
        )
        full = [demand for demand in admitted if ledger.groups_at_limit(job, demand) is not None]
        if full:
            unplaced.setdefault((self.group_of(job), equivalence_class(job), context.ledger.key(job)), (job, full))
        return len(full) == len(admitted)  # else a limit of its user denies it, and others of the class may still fit

    def _reclaim(
        self,
        context: CycleContext,
        ledger: ShareLedger,
        job: Job,
        allowed: Sequence[Demand],
        lacking: Sequence[Demand],
    ) -> bool:
        """Reclaim GPUs on loan from the job, for a demand that shares allow or that lacks quota; True if so."""
        lent = context.reclaimable(job)
        claim = None if allowed else GivenDemands(lacking)
        if not lent or not context.place_instead(job, lent, "its GPUs were on loan from the job that starts", claim):
            return False
        for run in lent:
            if run.job.id in context.preempts:
                ledger.charge(run.job, ledger.held(run), -1)
        ledger.charge(job, requested((allowed or lacking)[0]), 1)
        return True

    def _preempt(self, context: CycleContext, ledger: ShareLedger, unplaced: _Unplaced) -> None:
        """Let entitled jobs preempt others, the group furthest behind first."""
        budget = int(self.preemption_share * sum(context.state.capacity.gpus.values())) - ledger.stopping_gpus
        queues = context.state.queues(self)
        in_order = sorted(
            unplaced.values(), key=lambda one: (ledger.key(self.group_of(one[0])), self.waiting_key(one[0]), one[0].id)
        )
        for job, demands in in_order:
            waited_s = context.now - queues.waiting_since(self.group_of(job))
            for demand in demands:
                if budget <= 0 or context.limit_reached:
                    return
                if not ledger.may_take(job, demand, waited_s):
                    continue
                claim = _Preemption(context, ledger, job, demand, budget)
                detail = "its GPUs go to a queue that holds less than its share"
                found = context.place_instead(job, claim.victims(), detail, claim)
                budget -= claim.close()
                if found:
                    ledger.charge(job, requested(demand), 1)
                    break


class _Preemption:
    """The preemption by one job: the victims considered, and whether the limits admit the job.

    A victim is off the ledger once considered; `close` charges the ones that are not preempted again.
    """

    def __init__(self, context: CycleContext, ledger: ShareLedger, job: Job, demand: Demand, budget: int) -> None:
        self.demands: Sequence[Demand] = (demand,)
        self._context, self._ledger, self._job, self._demand, self._budget = context, ledger, job, demand, budget
        self._asked: dict[int, Running] = {}  # by job id

    def admits(self, released: Collection[Running]) -> bool:
        """True if the limits admit the demand when, of the victims considered, only these are gone."""
        gone = {run.job.id for run in released}
        back = [run for job_id, run in self._asked.items() if job_id not in gone]
        for run in back:
            self._charge(run, 1)
        admits = self._ledger.limit(self._job, self._demand) is None
        for run in back:
            self._charge(run, -1)
        return admits

    def close(self) -> int:
        """Charge the victims that stay again; returns the number of GPUs of the others."""
        gpus = 0
        for job_id, run in self._asked.items():
            if job_id in self._context.preempts:
                gpus += run.gpus
            else:
                self._charge(run, 1)
        return gpus

    def victims(self) -> Iterator[Running]:
        """The newest run of the group that exceeds its share most, and so on, as if each had gone.

        While a limit of several groups denies the demand, only these groups are considered. A job needs few of hundreds
        of runs, so they are searched one by one.
        """
        context, ledger, job, demand, budget = self._context, self._ledger, self._job, self._demand, self._budget
        taker = ledger.group_of(job)
        groups = [group for group in ledger.runs if group != taker]
        families = {group: ledger.family(group) for group in groups}
        nexts: dict[int, tuple[Iterator[Running], Running]] = {}
        excess: dict[int, float] = {}  # of the groups in `nexts`

        def advance(group: int, runs: Iterator[Running]) -> None:
            for run in runs:
                useful = demand.gpu_type is None or ledger.held(run).get(demand.gpu_type)
                if useful and context.stays(run) and not context.on_loan(job, run):
                    nexts[group] = (runs, run)
                    return
            nexts.pop(group, None)

        def weigh(some: Iterable[int]) -> None:
            for group in some:
                if group in nexts:
                    excess[group] = ledger.excess(group, job, demand, nexts[group][1])

        for group in groups:
            advance(group, iter(ledger.newest(group)))
        weigh(groups)
        while nexts:
            full = ledger.groups_at_limit(job, demand)
            asked = nexts if full is None else [group for group in nexts if group in full]
            if not asked:
                return
            group = max(asked, key=lambda each: (excess[each], -each))
            if excess[group] <= 0:
                return
            runs, run = nexts[group]
            advance(group, runs)
            if run.gpus > budget:
                weigh((group,))
                continue
            budget -= run.gpus
            self._charge(run, -1)
            self._asked[run.job.id] = run
            yield run
            # The others are unchanged, unless the victim counted for them too.
            family = families[group]
            weigh(groups if family == ledger.family(taker) else [each for each in groups if families[each] == family])

    def _charge(self, run: Running, times: int) -> None:
        self._ledger.charge(run.job, self._ledger.held(run), times)
