"""The context of one decision: who has been placed, preempted and left so far, and what that leaves free.

1. What is reserved and has come free goes to those for whom it was kept.
2. The policy serves jobs in its own way through the methods here.
3. What was promised is cut, and the plan is complete but for its holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Protocol

from scheduler.admission import Admission, charge
from scheduler.engine.state import SchedulerState
from scheduler.model import AllocationView, Job, Locality, Reservation, Running
from scheduler.model.lifecycle import HoldReason, JobClass
from scheduler.model.plan import UNSCHEDULABLE, Denial, Note, Place, Plan, Preempt
from scheduler.placement import Placement
from scheduler.placement.free import Demand


class _Failures:
    """The demands for which a cycle found no room; while what is free only shrinks, none of them is tried again."""

    def __init__(self) -> None:
        self._smallest: dict[tuple[Hashable, ...], list[Demand]] = {}

    def imply(self, demand: Demand) -> bool:
        """Whether the demand is at least as large, in everything, as one that failed."""
        return any(
            demand.gpus >= failed.gpus
            and demand.nodes >= failed.nodes
            and demand.cpus >= failed.cpus
            and demand.memory_mib >= failed.memory_mib
            for failed in self._smallest.get(_alike(demand), ())
        )

    def add(self, demand: Demand) -> None:
        """Remember a demand that failed and that the failures so far do not imply."""
        self._smallest.setdefault(_alike(demand), []).append(demand)

    def forget(self) -> None:
        """Something has come free."""
        self._smallest.clear()


def _alike(demand: Demand) -> tuple[Hashable, ...]:
    """What two demands have in common that differ by their size alone."""
    return demand.gpu_type, demand.split, demand.within, demand.closed


class _Candidates:
    """Running jobs that may be asked to go, in their order; of thousands, only as many are looked at as are needed."""

    def __init__(self, runs: Iterable[Running]) -> None:
        self._seen: list[Running] = []
        self._rest = iter(runs)

    def __iter__(self) -> Iterator[Running]:
        position = 0
        while position < len(self._seen) or self._look():
            yield self._seen[position]
            position += 1

    def hold(self, gpus: int) -> bool:
        """Whether there are any, and they hold so many GPUs together."""
        found = 0
        for run in self:
            found += run.gpus
            if found >= gpus:
                return True
        return False

    def _look(self) -> bool:
        run = next(self._rest, None)
        if run is not None:
            self._seen.append(run)
        return run is not None


class Claim(Protocol):
    """The right of a job to take from others, as far as a policy's own limits go."""

    demands: Sequence[Demand]  # for which the job may take

    def admits(self, released: Collection[Running]) -> bool:
        """Whether the limits let the job have its demand when exactly these runs are gone."""
        ...


class CycleContext:
    """What a policy works with during one decision."""

    def __init__(
        self, state: SchedulerState, admission: Admission, placement: Placement, *, max_places: int, explain: bool
    ) -> None:
        self.state, self.view, self.admission, self.placement = state, state.view, admission, placement
        self.now = state.view.now
        self.max_places, self.explain = max_places, explain
        self.places: dict[int, Place] = {}
        self.preempts: dict[int, Preempt] = {}
        self.notes: dict[int, Note] = {}
        self.reserved: set[int] = set()  # ids of the jobs whose reservation waits for others to stop
        self.drops: set[int] = set()  # ids of the jobs for which nothing is kept any longer
        self.waits_behind: dict[int, Job] = {}  # job id -> the head that it may not pass
        self.pending_reasons: dict[int, Denial] = {}  # job id -> why the policy itself lets it wait
        self.deferred: set[int] = set()  # ids of the jobs whose turn came after the last place of this cycle
        self._newest: Sequence[Running] | None = None  # those that may be preempted
        self._failures = _Failures()
        self._shared_out: set[int] = set()  # ids of the GPUs of which somebody has got a part
        # Lots that may lie anywhere are cut last, when it is known who else goes: (job, demand) in their order.
        self._deferred_lots: list[tuple[Job, Demand]] = []
        self._deferred_gpus: Counter[str | None] = Counter()
        self._bind_reservations()

    # What a job may have

    def demands(self, job: Job, gpus: int | None = None) -> Sequence[Demand]:
        """The job's demand for each GPU type that will do; `gpus` replaces the size of one that may change it."""
        types: Sequence[str | None] = (None,)
        if job.gpus:
            types = job.types_among(self.state.capacity.types) or job.gpu_types or ("any",)
        size, within = job.gpus if gpus is None else gpus, self.placement.within(job, self.now)
        closed = self.closed_to(job)
        demands = [
            Demand(kind, size, job.nodes, job.cpus, job.memory_mib, job.split, within, job.form, closed)
            for kind in types
        ]
        return [self._possible(job, demand) for demand in demands] if self.placement.relaxes else demands

    def closed_to(self, job: Job) -> frozenset[int]:
        """The ids of the nodes on which the job may not start now."""
        return self.state.free.closings.to(job, self.now)

    def _possible(self, job: Job, demand: Demand) -> Demand:
        """The demand, further apart if the pool could not meet it else and the job allows it: nobody waits for that."""
        levels = list(Locality)
        allowed = levels[levels.index(demand.within) : levels.index(job.locality) + 1]
        demands = (demand._replace(within=level) for level in allowed)
        return next((each for each in demands if self.state.capacity.infeasible(each) is None), demand)

    def entitled(self, job: Job, gpus: int | None = None) -> tuple[Sequence[Demand], Denial | None]:
        """What pool and quota let the job have, the GPU type with most free GPUs first; or why nothing."""
        demands = self.demands(job, gpus)
        if not self.state.capacity.nodes:
            return demands, None  # which fail for want of nodes: that is what the job waits for
        denials, admitted = [], []
        for demand in demands:
            denial = self.state.capacity.infeasible(demand) or self.denied(job, demand)
            if denial is None:
                admitted.append(demand)
            else:
                denials.append(denial)
        if not admitted:
            # Of several types, the one that is not denied for ever says what the job waits for.
            return (), min(denials, key=lambda denial: denial.reason in UNSCHEDULABLE)
        if len(admitted) > 1:
            admitted.sort(key=lambda demand: (-self.state.free.gpus(demand.gpu_type), demand.gpu_type))
        return admitted, None

    def denied(self, job: Job, demand: Demand) -> Denial | None:
        """Why the admission does not let the job have this, or None when it does."""
        return self.admission.admit(self.view, self.state.quota_usage, job, demand.gpu_type, demand.gpus * demand.nodes)

    def admitted_without(self, job: Job, runs: Iterable[Running]) -> bool:
        """Whether the admission would let the job have one of its demands if these were gone."""
        gone = list(runs)
        for run in gone:
            self.state.count(run.job, run.allocations, -1)
        admitted = any(self.denied(job, demand) is None for demand in self.demands(job))
        for run in gone:
            self.state.count(run.job, run.allocations, 1)
        return admitted

    # Placing

    @property
    def full(self) -> bool:
        """Whether this cycle has given all the places that it may."""
        return len(self.places) + len(self._deferred_lots) >= self.max_places

    def place(self, job: Job, demands: Iterable[Demand]) -> bool:
        """Whether one of the demands found room; if so, it is the job's, unless the cycle's limit came first."""
        for demand in demands:
            if self._failures.imply(demand):
                continue
            if self.full:
                self.deferred.add(job.id)
                return False
            if self._place_as(job, demand):
                return True
            self._failures.add(demand)
        return False

    def place_instead(self, job: Job, victims: Iterable[Running], detail: str, claim: Claim | None = None) -> bool:
        """Whether the job found room once some of `victims` go; they are asked in their order, and none in vain.

        1. Victims let go, one by one, until quota and claim admit the job and the placement finds room for it. While
           it lacks quota, only those of its own virtual cluster can help.
        2. Of those, the ones that the job does not need after all stay, the last asked first.
        """
        if self.full:
            return False
        candidates = _Candidates(victims)
        for demand in self.demands(job) if claim is None else claim.demands:
            free = self.state.free.gpus(demand.gpu_type) - self._deferred_gpus[demand.gpu_type]
            if not candidates.hold(demand.gpus * demand.nodes - free):
                continue
            if self.state.capacity.infeasible(demand) is None and self._place_instead(
                job, demand, candidates, detail, claim
            ):
                return True
        return False

    def service_classes(self) -> Sequence[JobClass | None]:
        """The classes of jobs to be served one after the other; None for all at once.

        Where guaranteed jobs take GPUs back from opportunistic ones, they go first: nobody starts only to be stopped.
        """
        return (JobClass.GUARANTEED, JobClass.OPPORTUNISTIC) if self.admission.reclaims else (None,)

    def reclaimable(self, job: Job) -> Sequence[Running]:
        """Those that have their GPUs only until the job has use for them, the newest first."""
        if not self.admission.reclaims:
            return ()
        if self._newest is None:
            in_service = self.state.free.node
            may_go = (
                run
                for run in self.view.running
                if run.job.preemptible and not run.stopping and any(in_service(one.node_id) for one in run.allocations)
            )
            self._newest = sorted(may_go, key=lambda run: (-run.placed_at, -run.job.id))
        return [run for run in self._newest if self.stays(run) and self.admission.reclaimable_by(run.job, job)]

    def take(self, job: Job, allocations: tuple[AllocationView, ...]) -> None:
        """Give the job exactly these; they must be free, or have room beside those with whom the job shares them."""
        if job.packs:
            allocations = tuple(replace(share, slots=job.slots) for share in allocations)
            self._shared_out.update(gpu_id for share in allocations for gpu_id in share.gpu_ids)
        self.state.free.take(allocations)
        self.state.count(job, allocations, 1)
        self.places[job.id] = Place(job.id, allocations)

    def release(self, run: Running) -> None:
        """Count as free, from now on, what a running job holds."""
        self.state.free.give(run.allocations)
        self.state.count(run.job, run.allocations, -1)
        self._failures.forget()

    def undo_release(self, run: Running) -> None:
        """Undo a `release`; all of it must be free still."""
        self.state.free.take(run.allocations)
        self.state.count(run.job, run.allocations, 1)

    def preempt(self, run: Running, for_job_id: int, detail: str) -> None:
        """Stop a job that was released."""
        self.preempts[run.job.id] = Preempt(run.job.id, for_job_id, detail)

    def note(self, job: Job, run: Running | None, memo: Mapping[str, float]) -> None:
        """Have the policy told this of the job in the next snapshot, and from now on in this decision."""
        self.notes[job.id] = Note(job.id, memo)
        noted = replace(job, memo=memo)
        if run is None:
            self.state.waits(noted)
        else:
            self.state.runs(replace(run, job=noted))

    def stays(self, run: Running) -> bool:
        """Whether the job runs on after this plan, as far as it goes."""
        return run.job.id not in self.preempts and not run.stopping

    def _place_as(self, job: Job, demand: Demand) -> bool:
        anywhere = demand.split and demand.within is Locality.ANY and not demand.cpus and not demand.memory_mib
        if anywhere and self.placement.fills and not demand.closed:
            if self.state.free.gpus(demand.gpu_type) - self._deferred_gpus[demand.gpu_type] < demand.gpus:
                return False
            self._deferred_lots.append((job, demand))
            self._deferred_gpus[demand.gpu_type] += demand.gpus
            charge(self.state.quota_usage, job.vc_id, job.klass, str(demand.gpu_type), demand.gpus)
            return True
        self.bind_deferred_lots()
        allocations = self.placement.place(self.state.free, demand, job.avoid_nodes)
        if allocations is None:
            return False
        self.take(job, allocations)
        return True

    def bind_deferred_lots(self) -> None:
        """Cut the lots that were only promised so far."""
        promised, self._deferred_lots = self._deferred_lots, []
        self._deferred_gpus.clear()
        for job, demand in promised:
            charge(self.state.quota_usage, job.vc_id, job.klass, str(demand.gpu_type), -demand.gpus)
            allocations = self.placement.place(self.state.free, demand, job.avoid_nodes)
            if allocations is None:
                raise RuntimeError(f"the placement breaks its contract: no room for {demand}, though so much is free")
            self.take(job, allocations)

    def _place_instead(
        self, job: Job, demand: Demand, candidates: Iterable[Running], detail: str, claim: Claim | None
    ) -> bool:
        gone: list[Running] = []
        if not self._release_until_it_fits(job, demand, candidates, gone, claim):
            for run in reversed(gone):
                self.undo_release(run)
            return False
        for run in list(reversed(gone)):
            if self.can_stay(run) and (claim is None or claim.admits([one for one in gone if one is not run])):
                gone.remove(run)
                self.undo_release(run)
            else:
                self.preempt(run, job.id, detail)
        return True

    def _release_until_it_fits(
        self,
        job: Job,
        demand: Demand,
        candidates: Iterable[Running],
        gone: list[Running],
        claim: Claim | None,
    ) -> bool:
        def fits() -> bool:
            return (claim is None or claim.admits(gone)) and self._place_as(job, demand)

        later = []
        for run in candidates:
            if run.job.vc_id != job.vc_id and self.denied(job, demand) is not None:
                later.append(run)
                continue
            self.release(run)
            gone.append(run)
            if self.denied(job, demand) is None and fits():
                return True
        if self.denied(job, demand) is not None:
            return False
        for run in later:
            self.release(run)
            gone.append(run)
            if fits():
                return True
        return False

    def can_stay(self, run: Running) -> bool:
        """Whether all that a released job held is free still, promises considered, and its admission agrees."""
        return self.has_room_for(run) and all(
            self.admission.admit(self.view, self.state.quota_usage, run.job, kind, gpus) is None
            for kind, gpus in self._types_of(run).items()
        )

    def has_gpus_for(self, run: Running) -> bool:
        """Whether nobody has got the GPUs that a released job held, or a part of them."""
        gpu_ids = (gpu_id for share in run.allocations for gpu_id in share.gpu_ids)
        if run.job.packs and any(gpu_id in self._shared_out for gpu_id in gpu_ids):
            return False  # who has got the other part waits until all of the GPU has been let go of
        return self.state.free.has_gpus(run.allocations)

    def has_room_for(self, run: Running) -> bool:
        """The same, whatever its admission says."""
        free = self.state.free
        return (
            self.has_gpus_for(run)
            and free.can_take(run.allocations)
            and (
                not self._deferred_lots
                or all(free.gpus(kind) - self._deferred_gpus[kind] >= n for kind, n in self._types_of(run).items())
            )
        )

    def _types_of(self, run: Running) -> Counter[str]:
        """How many GPUs of each type a released job would take again: not those that another one is on still."""
        free = self.state.free
        gpu_ids = (gpu_id for share in run.allocations for gpu_id in share.gpu_ids)
        return Counter(free.type_of(gpu_id) for gpu_id in gpu_ids if not free.room_on(gpu_id))

    def _bind_reservations(self) -> None:
        """Place those whose reserved GPUs have come free, or let go of what cannot be had any more."""
        for kept in self.view.reservations:
            job = self.view.waiting_by_id.get(kept.job_id)
            if kept.until <= self.now or job is None:
                continue
            if self._usable(kept, job) and self._held(kept):
                self.reserved.add(job.id)
                continue
            self.state.count(job, kept.allocations, -1)
            late = self._lacks_quota(job, kept) and any(
                run.stopping and run.job.vc_id == job.vc_id for run in self.view.running
            )
            if late and self._usable(kept, job):
                self.state.count(job, kept.allocations, 1)
                self.reserved.add(job.id)
                continue
            self._give_back(kept)
            allowed = job.eligible_at <= self.now and not self._lacks_quota(job, kept)
            if allowed and self._usable(kept, job) and self.state.free.can_take(kept.allocations):
                self.take(job, kept.allocations)
            else:
                self.drops.add(job.id)

    def _give_back(self, kept: Reservation) -> None:
        """Count as free what was kept, but for what others hold still."""
        held, used = self.view.holders_of_gpu, self.view.used_by_node
        others = [
            one
            for one in self.view.reservations
            if one is not kept and one.until > self.now and one.job_id not in self.drops
        ]
        for share in kept.allocations:
            self.state.free.give([replace(share, gpu_ids=tuple(gpu for gpu in share.gpu_ids if gpu not in held))])
            node = self.state.free.node(share.node_id)
            if node is None:
                continue
            # What was taken off for it was cut at nothing, so what it leaves is counted anew.
            here = [one for other in others for one in other.allocations if one.node_id == node.id]
            cpus, memory_mib = used.get(node.id, (0, 0))
            whole = self.view.node_by_id[node.id]
            node.cpus = max(0, whole.cpus - cpus - sum(one.cpus for one in here))
            node.memory_mib = max(0, whole.memory_mib - memory_mib - sum(one.memory_mib for one in here))

    def _usable(self, kept: Reservation, job: Job) -> bool:
        """Whether all that is kept is in service still, and open to the job."""
        closed = self.closed_to(job)
        for share in kept.allocations:
            node = self.view.node_by_id.get(share.node_id)
            if node is None or not node.schedulable or node.id in closed:
                return False
            gpus = [self.view.gpu_by_id.get(gpu_id) for gpu_id in share.gpu_ids]
            if not all(gpu is not None and gpu.healthy for gpu in gpus):
                return False
        return True

    def _held(self, kept: Reservation) -> bool:
        """Whether others still hold GPUs of it, or stop on a node that has too few CPUs or too little memory left."""
        if any(gpu_id in self.view.holders_of_gpu for share in kept.allocations for gpu_id in share.gpu_ids):
            return True
        short = set()
        for share in kept.allocations:
            node = self.view.node_by_id[share.node_id]
            cpus, memory_mib = self.view.used_by_node.get(node.id, (0, 0))
            if node.cpus - cpus < share.cpus or node.memory_mib - memory_mib < share.memory_mib:
                short.add(share.node_id)
        return bool(short) and any(
            run.stopping and any(share.node_id in short for share in run.allocations) for run in self.view.running
        )

    def _lacks_quota(self, job: Job, kept: Reservation) -> bool:
        gpu_ids = [gpu_id for share in kept.allocations for gpu_id in share.gpu_ids]
        gpu = self.view.gpu_by_id.get(gpu_ids[0]) if gpu_ids else None
        kind = gpu.type if gpu is not None else None
        return self.admission.admit(self.view, self.state.quota_usage, job, kind, len(gpu_ids)) is not None

    # The end

    def plan(self) -> Plan:
        """The plan but for its holds."""
        self.bind_deferred_lots()
        return Plan(
            places=tuple(self.places.values()),
            holds=(),
            preempts=tuple(sorted(self.preempts.values(), key=lambda preempt: preempt.job_id)),
            notes=tuple(sorted(self.notes.values(), key=lambda note: note.job_id)),
            drops=tuple(sorted(self.drops)),
        )


def backoff_reason(job: Job, now: float) -> Denial | None:
    """Why it is too early to look at the job, or None when it is not."""
    if job.still_stopping:
        return Denial(
            HoldReason.STILL_STOPPING,
            "the last attempt of this job has not released all its nodes",
            {},
            ("its last processes end, or are known to have ended",),
        )
    if job.eligible_at > now:
        # A moment, not a countdown: a hold that changes each cycle would be written each cycle.
        moment = datetime.fromtimestamp(job.eligible_at, UTC).isoformat(timespec="seconds")
        return Denial(
            HoldReason.BACK_OFF,
            f"it tries again at {moment}",
            {"eligible_at": job.eligible_at},
            ("nothing to do: it retries by itself",),
        )
    return None
