"""Free resources of a pool at each later moment, given the ends of running jobs, the promises, and returning nodes.

Promises are counted by node and GPU type: GPUs of a type on one node are interchangeable. An end may be infinite; a
promise for then is for GPUs of jobs without a known end.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from scheduler.authoring import Config, Job, JobClass, Running
from scheduler.policies.backfill.nodes import Claim, NodeTimes, peak
from scheduler.workshop import AllocationView, CycleContext, Demand, Denial, FreeNode, Ledger, Resident

# An end, and a number that distinguishes ends at the same moment.
_Entry = tuple[float, int]
# After this many ends the cumulated usage is stored; between two stored sums it is counted end by end.
_STEP = 64


@dataclass(frozen=True, slots=True)
class Promise:
    """GPUs for a waiting job from `start` on, for its maximum run time; without shares, only its quota."""

    job: Job
    start: float
    end: float
    gpu_type: str | None
    shares: tuple[AllocationView, ...]
    waits_for: int | None  # the job whose end makes room, if known
    made_at: float  # when it was promised, and the largest job id at that time
    known: int


@dataclass(frozen=True, slots=True)
class Holding:
    """Resources held until a moment: shares that become free then, and GPUs that count as used until then."""

    end: float
    job_id: int | None
    shares: tuple[AllocationView, ...]
    used: tuple[tuple[int, JobClass, str, int], ...]  # virtual cluster, class, GPU type, GPUs


class Horizon:
    """The future of a cycle, as far as ends are known and GPUs are promised."""

    def __init__(self, context: CycleContext) -> None:
        self._context = context
        self._free = context.state.free
        self.promises: dict[int, Promise] = {}
        self._times = NodeTimes(self._free, (*self._free.by_fit(None, 0), *self._free.returning), context.now)
        self._quotas: dict[tuple[int, JobClass, str], dict[int, Claim]] = {}
        self._quota_ends: dict[tuple[int, JobClass, str], list[tuple[float, int]]] = {}
        # The holdings, each by its end and a number of its own; in order, by node, and by job.
        self._ends: list[_Entry] = []
        self._holding: dict[_Entry, Holding] = {}
        self._on_node: dict[int, set[_Entry]] = {}
        self._of_run: dict[int, _Entry] = {}
        self._number = 0
        self._moments: list[float] = [context.now]
        self._used: list[tuple[float, Ledger]] = []  # GPUs still used after an end, for some of the ends
        self._usages: dict[float, Ledger] = {}  # the same for the moments queried
        # The first moment at which quota admits a demand, promises aside.
        self._admitted_from: dict[tuple[int, JobClass, str | None, int], float] = {}
        self._job_ids = max((job.id for job in context.view.waiting), default=0)
        self._owed = self._overbooked()

    # Held resources

    def add_running(self, run: Running, end: float) -> None:
        """Add a running job that ends at `end`."""
        owed = self._owed if run.stopping else {}
        reserved = self._context.view.reserved_gpus
        if not owed and not reserved:
            self._hold(run.job.id, run.allocations, end, self._used_by(run.job, run.allocations))
            return
        shares = []
        for share in run.allocations:
            cpus, memory_mib = owed.get(share.node_id, (0, 0))
            less = min(cpus, share.cpus), min(memory_mib, share.memory_mib)
            if any(less):
                owed[share.node_id] = (cpus - less[0], memory_mib - less[1])
            # Resources already reserved, such as GPUs of a stopping job, become free for their own job only.
            gpu_ids = tuple(gpu_id for gpu_id in share.gpu_ids if gpu_id not in reserved)
            shares.append(
                replace(share, gpu_ids=gpu_ids, cpus=share.cpus - less[0], memory_mib=share.memory_mib - less[1])
            )
        self._hold(run.job.id, shares, end, self._used_by(run.job, run.allocations))

    def add_reserved(self, job: Job | None, allocations: Sequence[AllocationView], end: float) -> None:
        """Add allocations that the state does not count as free, held for a job until `end`."""
        self._hold(job.id if job else None, allocations, end, self._used_by(job, allocations) if job else ())

    def add_reopenings(self) -> None:
        """Add the nodes with a known return from maintenance; call it after all running jobs are added.

        GPUs that are still held at that time are left out: their job holds them for longer, or shares them.
        """
        view = self._context.view
        for node in view.nodes:
            if node.maintenance_ends_at is not None and node.maintenance_starts_at is not None and node.schedulable:
                self._note_moment(max(node.maintenance_ends_at, self._context.now))
        back = {free.id: view.node_by_id[free.id] for free in self._free.returning}
        left = {node_id: [node.cpus, node.memory_mib] for node_id, node in back.items()}
        staying = set(view.reserved_gpus)
        for run in view.running if back else ():
            for share in run.allocations:
                maintenance_ends_at = back[share.node_id].maintenance_ends_at if share.node_id in back else None
                if maintenance_ends_at is not None and (
                    run.job.request.shares_gpu or self._of_run[run.job.id][0] > maintenance_ends_at
                ):
                    staying.update(share.gpu_ids)
                    left[share.node_id][0] -= share.cpus
                    left[share.node_id][1] -= share.memory_mib
        for node_id, node in back.items():
            gpu_ids = tuple(gpu.id for gpu in node.gpus if gpu.healthy and gpu.id not in staying)
            cpus, memory_mib = (max(0, amount) for amount in left[node_id])
            end = max(node.maintenance_ends_at or 0.0, self._context.now)
            self._add(Holding(end, None, (AllocationView(node_id, 0, gpu_ids, cpus, memory_mib),), ()))

    def take(self, job: Job, allocations: Sequence[AllocationView], end: float) -> None:
        """Add a job that has just been placed and ends at `end`."""
        for share in self._in_service(allocations):
            self._times.take(share)
        self.add_reserved(job, allocations, end)

    def release(self, run: Running) -> None:
        """Count all resources of the job as released now, not at its end."""
        entry = self._of_run.pop(run.job.id)
        holding = self._holding.pop(entry)
        del self._ends[bisect_left(self._ends, entry)]
        for share in holding.shares:
            self._on_node[share.node_id].discard(entry)
            self._times.remove_hold(share, entry[0])
            self._times.take(share, -1)
        self._count(holding, -1)
        self._admitted_from.clear()

    def undo_release(self, run: Running, end: float) -> None:
        """Undo a `release`."""
        for share in self._in_service(run.allocations):
            self._times.take(share)
        self.add_running(run, end)

    def _hold(
        self,
        job_id: int | None,
        allocations: Iterable[AllocationView],
        end: float,
        used: tuple[tuple[int, JobClass, str, int], ...],
    ) -> None:
        self._add(Holding(max(end, self._context.now), job_id, tuple(self._in_service(allocations)), used))

    def _add(self, holding: Holding) -> None:
        end, job_id = holding.end, holding.job_id
        self._number += 1
        entry = (end, self._number)
        insort(self._ends, entry)
        self._holding[entry] = holding
        if job_id is not None:
            self._of_run[job_id] = entry
        self._note_moment(end)
        for share in holding.shares:
            self._on_node.setdefault(share.node_id, set()).add(entry)
            self._times.add_hold(share, end)
        self._count(holding, 1)

    def _count(self, holding: Holding, times: int) -> None:
        """Add a holding to the usage until its end, or remove it with `times` -1."""
        for vc_id, job_class, kind, gpus in holding.used:
            ends = self._quota_ends.setdefault((vc_id, job_class, kind), [])
            if times > 0:
                insort(ends, (holding.end, gpus))
            else:
                ends.remove((holding.end, gpus))
            for at, ledger in (*self._used, *self._usages.items()):
                if at < holding.end:
                    ledger.charge(vc_id, job_class, kind, gpus * times)

    def _in_service(self, allocations: Iterable[AllocationView]) -> Iterator[AllocationView]:
        """The allocations on nodes in service; the others free only their quota."""
        for share in allocations:
            if self._free.node(share.node_id) is not None:
                usable = tuple(filter(self._free.usable, share.gpu_ids))
                yield share if len(usable) == len(share.gpu_ids) else replace(share, gpu_ids=usable)

    def _used_by(self, job: Job, allocations: Iterable[AllocationView]) -> tuple[tuple[int, JobClass, str, int], ...]:
        known = self._context.view.gpu_by_id
        used = Counter(known[gpu_id].type for share in allocations for gpu_id in share.gpu_ids if gpu_id in known)
        return tuple((job.vc_id, job.job_class, kind, used[kind]) for kind in sorted(used))

    def _overbooked(self) -> dict[int, tuple[int, int]]:
        """CPUs and memory by node reserved beyond what is free: stopping jobs there give this much back to the
        reservations."""
        view, wanted = self._context.view, dict[int, tuple[int, int]]()
        for kept in view.reservations:
            held = kept.offered or kept.job_id in self._context.reserved or kept.job_id in view.running_by_job
            if kept.until > self._context.now and held:
                for share in kept.allocations:
                    cpus, memory_mib = wanted.get(share.node_id, (0, 0))
                    wanted[share.node_id] = (cpus + share.cpus, memory_mib + share.memory_mib)
        owed = {}
        for node_id, (cpus, memory_mib) in wanted.items():
            node = view.node_by_id.get(node_id)
            if node is not None:
                used_cpus, used_memory_mib = view.used_by_node.get(node_id, (0, 0))
                owed[node_id] = (
                    max(0, cpus - max(0, node.cpus - used_cpus)),
                    max(0, memory_mib - max(0, node.memory_mib - used_memory_mib)),
                )
        return owed

    # Promises

    def promise(self, promise: Promise) -> None:
        """Add a promise."""
        self.promises[promise.job.id] = promise
        job = promise.job
        gpus = (
            sum(len(share.gpu_ids) for share in promise.shares)
            if promise.shares
            else job.request.gpus_on(promise.gpu_type)
        )
        if gpus and promise.gpu_type is not None:
            booked = self._quotas.setdefault((job.vc_id, job.job_class, promise.gpu_type), {})
            booked[job.id] = (promise.start, promise.end, gpus)
        for share in promise.shares:
            self._times.book(job.id, share, promise.gpu_type, promise.start, promise.end)
        self._note_moment(promise.end)

    def remove_promise(self, job_id: int) -> None:
        """Remove the job's promise, if it has one."""
        promise = self.promises.pop(job_id, None)
        if promise is None:
            return
        key = (promise.job.vc_id, promise.job.job_class, str(promise.gpu_type))
        self._quotas.get(key, {}).pop(job_id, None)
        for share in promise.shares:
            self._times.unbook(job_id, share, promise.gpu_type)

    def possible(self, promise: Promise) -> bool:
        """True if this promise is compatible with all others."""
        return all(
            self._times.has_room(share, promise.gpu_type, promise.start, promise.end) for share in promise.shares
        ) and self._admits(promise.job, promise.gpu_type, promise.start, promise.end)

    def place_now(self, job: Job, demands: Iterable[Demand], end: float) -> tuple[AllocationView, ...] | None:
        """A place for the job now and until `end` that touches no promise, or None."""
        now = self._context.now
        for demand in demands:
            if self._free.gpus(demand.gpu_type) < demand.gpus * demand.nodes:
                continue
            if self._admits(job, demand.gpu_type, now, end):
                allocations = self._place(job, demand, now, end)
                if allocations is not None:
                    return allocations
        return None

    def earliest(self, job: Job, demands: Sequence[Demand], length_s: float, *, quota_only: bool) -> Promise | None:
        """The earliest promise for the job: GPUs, or only the moment at which its quota has room; None if never.

        1. A demand is tried only from the moment at which quota admits it and enough nodes can each host a part of it.
        2. From then on, the placement is asked at each moment at which resources become free.
        """
        tried = []
        for demand in demands:
            since = self._admitted(job, demand)
            if since is not None and not quota_only:
                since = self._times.not_before(demand, length_s, since)
            if since is not None:
                tried.append((since, demand))
        if not tried:
            return None
        first = min(since for since, _ in tried)
        for moment in self._moments[max(0, bisect_right(self._moments, first) - 1) :]:
            end = moment + length_s
            for since, demand in tried:
                if since > moment or not self._admits(job, demand.gpu_type, moment, end):
                    continue
                shares = () if quota_only else self._place_at(job, demand, moment, end)
                if shares is not None:
                    return self._promise(job, moment, end, demand.gpu_type, shares)
        return None

    def _promise(
        self, job: Job, moment: float, end: float, gpu_type: str | None, shares: tuple[AllocationView, ...]
    ) -> Promise:
        ending = [self._holding[entry] for entry in self._between(moment, moment, inclusive=True)]
        waits_for = max((one.job_id for one in ending if one.job_id is not None), default=None)
        return Promise(job, moment, end, gpu_type, shares, waits_for, self._context.now, self._job_ids)

    def _note_moment(self, at: float) -> None:
        position = bisect_right(self._moments, at)
        if self._moments[position - 1] != at:
            self._moments.insert(position, at)

    # Places

    def _place_at(self, job: Job, demand: Demand, start: float, end: float) -> tuple[AllocationView, ...] | None:
        """A place for the job among the resources free at a moment and not promised until the end.

        Only nodes that can host a part of the job by then show their future state: the placement could not choose
        others.
        """
        demand = demand.closed_to(self._context.closed_to(job, start))
        hosts = self._times.hosts(demand, start, end)
        if not hosts:
            return None
        ended = {one for node_id in hosts for one in self._on_node.get(node_id, ()) if one[0] <= start}
        opened = [node_id for node_id in hosts if self._free.show(node_id)]
        given: list[tuple[Holding, list[tuple[FreeNode, Counter[Resident]]]]] = []
        for entry in sorted(ended):
            holding = self._holding[entry]
            # Shares without their reserved GPUs are not valid residents of a node.
            nodes = [node for share in holding.shares if (node := self._free.node(share.node_id)) is not None]
            given.append((holding, [(node, node.residents.copy()) for node in nodes]))
            self._free.give(holding.shares)
        allocations = self._place(job, demand, start, end)
        for holding, residents in reversed(given):
            self._free.take(holding.shares)
            for node, before in residents:
                node.residents = before
        for node_id in opened:
            self._free.hide(node_id)
        return allocations

    def _place(self, job: Job, demand: Demand, start: float, end: float) -> tuple[AllocationView, ...] | None:
        """A place for the job among the resources that the state shows and that are not promised between the two
        moments."""
        context, placement = self._context, self._context.placement
        if context.admission.chooses_gpus and start <= context.now:
            return context.find(job, demand)
        allocations = placement.place(self._free, demand, job.avoid_nodes)
        if allocations is None:
            return None  # nor with the promises, which take longer to check
        lent = self._lend(demand, start, end)
        if lent:
            allocations = placement.place(self._free, demand, job.avoid_nodes)
        for shares in reversed(lent):
            self._free.give(shares)
        return allocations

    def _lend(self, demand: Demand, start: float, end: float) -> list[tuple[AllocationView, ...]]:
        """Take the resources promised between the two moments out of the free ones; returns what was taken.

        Nodes that could not host a part of the demand anyway are skipped.
        """
        lent: list[tuple[AllocationView, ...]] = []
        for node_id in self._times.booked:
            node = self._free.node(node_id)
            if node is None or not (node.room(demand) if demand.divisible else node.fits(demand)):
                continue
            share = self._promised_on(node, start, end)
            if share is not None:
                lent.append((share,))
        for shares in lent:
            self._free.take(shares)
        return lent

    def _promised_on(self, node: FreeNode, start: float, end: float) -> AllocationView | None:
        gpu_ids: list[int] = []
        for gpu_type in sorted(node.gpus):
            gpu_ids += node.gpus[gpu_type][: self._times.peak(("gpus", node.id, gpu_type), start, end)]
        cpus = min(node.cpus, self._times.peak(("cpus", node.id, None), start, end))
        memory_mib = min(node.memory_mib, self._times.peak(("memory", node.id, None), start, end))
        if not (gpu_ids or cpus or memory_mib):
            return None
        return AllocationView(node.id, 0, tuple(gpu_ids), cpus, memory_mib)

    # Quota admission

    def _admits(self, job: Job, gpu_type: str | None, start: float, end: float) -> bool:
        """True if quota admits the job, with what its virtual cluster is promised in the meantime."""
        ledger = self._usage(start)
        promised = list(self._promised_quota(job, str(gpu_type), start, end))
        if promised:
            ledger = ledger.copy()
        for job_class, gpus in promised:
            ledger.charge(job.vc_id, job_class, str(gpu_type), gpus)
        return not isinstance(ledger.offer(job, Config(gpu_type, job.request.gpus_on(gpu_type))), Denial)

    def _promised_quota(self, job: Job, gpu_type: str, start: float, end: float) -> Iterable[tuple[JobClass, int]]:
        """The maximum promised to each class of the virtual cluster at any moment of the interval."""
        for job_class in JobClass:
            claims = self._quotas.get((job.vc_id, job_class, gpu_type))
            if claims:
                ends = self._quota_ends.get((job.vc_id, job_class, gpu_type), ())
                yield job_class, peak(claims.values(), ends, start, end)

    def _admitted(self, job: Job, demand: Demand) -> float | None:
        """The first moment at which quota admits the demand, promises aside; None if never.

        Less usage admits sooner, so a binary search needs few moments.
        """
        key = (job.vc_id, job.job_class, demand.gpu_type, demand.gpus * demand.nodes)
        since = self._admitted_from.get(key)
        if since is not None:
            return since
        moments = self._moments
        low, high = 0, len(moments)
        while low < high:
            middle = (low + high) // 2
            if not isinstance(self._usage(moments[middle]).offer(job, demand.config), Denial):
                high = middle
            else:
                low = middle + 1
        if low == len(moments):
            return None
        self._admitted_from[key] = moments[low]  # starts of other jobs can only delay it
        return moments[low]

    def _usage(self, moment: float) -> Ledger:
        """The usage after all ends up to this moment; callers must not change it."""
        if moment not in self._usages:
            if not self._used:
                self._count_ends()
            at, marked = self._used[bisect_right(self._used, moment, key=lambda mark: mark[0]) - 1]
            self._usages[moment] = ledger = marked.copy()
            for entry in self._between(at, moment):
                for vc_id, job_class, kind, gpus in self._holding[entry].used:
                    ledger.charge(vc_id, job_class, kind, -gpus)
        return self._usages[moment]

    def _between(self, after: float, until: float, *, inclusive: bool = False) -> Sequence[_Entry]:
        """The ends after one moment, or at it with `inclusive`, up to another."""
        first = bisect_left(self._ends, (after,)) if inclusive else bisect_right(self._ends, (after, math.inf))
        return self._ends[first : bisect_right(self._ends, (until, math.inf))]

    def _count_ends(self) -> None:
        ledger, since_mark = self._context.ledger.copy(), 0
        self._used.append((-math.inf, ledger.copy()))
        for position, entry in enumerate(self._ends, start=1):
            for vc_id, job_class, kind, gpus in self._holding[entry].used:
                ledger.charge(vc_id, job_class, kind, -gpus)
            since_mark += 1
            # A stored sum includes all ends of its moment, so none lies between two equal ends.
            if since_mark >= _STEP and (position == len(self._ends) or self._ends[position][0] > entry[0]):
                self._used.append((entry[0], ledger.copy()))
                since_mark = 0
