"""The context of one cycle: its decisions so far and the resources that they leave free.

1. Bind reservations whose GPUs are free.
2. The policy places and preempts jobs through the methods here.
3. Choose GPUs for the deferred lots. The plan is then complete except for its holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Protocol

from scheduler.admission import ANY_GPUS, Admission, AdmissionError, Grant
from scheduler.engine.demands import demands_in_size
from scheduler.engine.failed import FailedDemands
from scheduler.engine.kept import KeptFree
from scheduler.engine.state import SchedulerState
from scheduler.engine.victims import MIN_WAKE_S, Candidates, Loans
from scheduler.model import AllocationView, Job, Locality, PoolState, Running
from scheduler.model.given import Given, with_batch
from scheduler.model.lifecycle import HoldReason, JobClass
from scheduler.model.plan import UNSCHEDULABLE, Denial, Note, Place, Plan, Preempt
from scheduler.model.request import Choice, Config
from scheduler.placement import Placement
from scheduler.placement.demand import Demand
from scheduler.placement.exact import on_gpus

MAX_WAKE_S = 366 * 86_400.0


class Claim(Protocol):
    """The right of a job to preempt others within the limits of its policy."""

    @property
    def demands(self) -> Sequence[Demand]:
        """The demands that the job may preempt for."""

    def admits(self, released: Collection[Running]) -> bool:
        """True if the limits allow the demand once exactly these runs are released."""


@dataclass(frozen=True, slots=True)
class GivenDemands:
    """A claim to preempt for certain demands, without limits."""

    demands: Sequence[Demand]

    def admits(self, released: Collection[Running]) -> bool:
        return True


@dataclass(slots=True)
class Attempt:
    """A part of a decision that is undone unless it is kept."""

    kept: bool = False

    def keep(self) -> None:
        """Keep what the block does."""
        self.kept = True


class CycleContext:
    """The interface between a policy and one decision."""

    def __init__(
        self,
        state: SchedulerState,
        admission: Admission,
        placement: Placement,
        *,
        max_places: int,
        explain: bool,
        policy_name: str = "",
        kept_together: Callable[[Job], frozenset[str]] | None = None,
    ) -> None:
        self.state, self.view, self.admission, self.placement = state, state.view, admission, placement
        self.ledger = state.use(admission)
        self.ledger.begin()
        self.now = state.view.now
        self.max_places, self.explain, self.policy_name = max_places, explain, policy_name
        self.places: dict[int, Place] = {}
        self.preempts: dict[int, Preempt] = {}
        self.notes: dict[int, Note] = {}
        self.given: dict[int, Given] = {}  # job id -> the values that it gets if it is placed
        self.reserved: set[int] = set()  # ids of jobs whose reserved GPUs are still held
        self.drops: set[int] = set()  # ids of jobs whose reservations end
        self.waits_behind: dict[int, Job] = {}  # job id -> the job ahead that it may not pass
        self.pending_reasons: dict[int, Denial] = {}  # job id -> the reason of the policy
        self.deferred: set[int] = set()  # ids of jobs that the limit of this cycle left out
        self.pool_state: PoolState | None = None  # what the policy remembers anew
        self.wakes_at: float | None = None  # the earliest moment at which the policy wants to decide again
        self._kept_together = kept_together or (lambda _: frozenset())
        self._undo: list[Callable[[], None]] | None = None  # the steps that undo the present attempt, in order
        self._level: int | None = None  # of the tree: this pass places only jobs within its shares; None: all jobs
        self._kept_free, self._failures = KeptFree(state.view, state.free), FailedDemands()
        self._defers = placement.fills and not admission.chooses_gpus
        self._shared_out: set[int] = set()  # ids of the GPUs that this cycle gave to sharing jobs
        # Divisible lots without placement rules get their GPUs last, after all releases: (job, demand) in their order.
        self._deferred_lots: list[tuple[Job, Demand]] = []
        self._deferred_gpus: Counter[str | None] = Counter()

    # Admission

    def demands(self, job: Job, gpus: int | None = None) -> Sequence[Demand]:
        """The demands for each choice of the job that the pool has, by preference.

        `gpus` of the whole gang override the size of an elastic job.
        """
        # Waiting jobs by the thousand share a few requests.
        key = self.demands_key(job, gpus)
        demands = self.state.demands.get(key)
        if demands is None:
            choices = job.request.choices_among(self.state.capacity.types)
            demands = self.state.demands[key] = [one for choice in choices for one in self._demands(job, choice, gpus)]
        return demands

    def demands_key(self, job: Job, gpus: int | None = None) -> Hashable:
        """Equal for jobs with equal demands."""
        placement, closed = self.placement, self.closed_to(job)
        return job.request, gpus, placement.within(job, self.now), closed, placement.relaxes, self._kept_together(job)

    def demands_on(self, job: Job, gpu_type: str, gpus: int | None = None) -> Sequence[Demand]:
        """The demands of the job for one GPU type that it accepts, as `demands`.

        Raises:
            ValueError: the job does not accept the type.
        """
        choice = job.request.choice_of(gpu_type)
        if choice is None:
            raise ValueError(f"job {job.id} does not accept {gpu_type}")
        return self._demands(job, choice, gpus)

    def _demands(self, job: Job, choice: Choice, gpus: int | None) -> Sequence[Demand]:
        together = choice.gpu_type in self._kept_together(job)
        return demands_in_size(
            self.state.capacity,
            job.request.in_size(choice, gpus) if gpus is not None else (job.request.given(choice),),
            within=Locality.NODE if together else self.placement.within(job, self.now),
            farthest=job.request.locality if together or self.placement.relaxes else None,
            closed=self.closed_to(job),
        )

    def closed_to(self, job: Job, moment: float | None = None) -> frozenset[int]:
        """The ids of the nodes that are ineligible for the job now, or then, or that the admission does not give it."""
        closed = self.state.free.eligibility.to(job, self.now if moment is None else moment)
        nodes = self.ledger.nodes(job)
        return closed if nodes is None else closed | (self.view.node_by_id.keys() - nodes)

    def find(self, job: Job, demand: Demand) -> tuple[AllocationView, ...] | None:
        """Room for the job on free GPUs, those of its grant if the admission chooses them; None without room.

        Raises:
            AdmissionError: the grant is no place for the demand.
        """
        grant = self.ledger.offer(job, demand.config) if self.admission.chooses_gpus else ANY_GPUS
        if isinstance(grant, Denial) or grant.evicts:
            return None
        return self._find_as(job, demand, grant)

    def _find_as(self, job: Job, demand: Demand, grant: Grant) -> tuple[AllocationView, ...] | None:
        if grant.gpu_ids is None:
            return self.placement.place(self.state.free, demand, job.avoid_nodes)
        allocations = on_gpus(self.view, demand, grant.gpu_ids, grant.cells)
        if allocations is None or not self.state.free.has_gpus(allocations):
            raise AdmissionError(
                f"the admission grants job {job.id} GPUs {sorted(grant.gpu_ids)}, which are no free {demand.config}"
            )
        return allocations if self.state.free.can_take(allocations) else None  # CPUs or memory may be short

    def admissible(self, job: Job, gpus: int | None = None) -> tuple[Sequence[Demand], Denial | None]:
        """The demands, as `demands` gives them, that capacity and quota admit, in order of preference; or a denial.

        For a job that takes any GPU type, the type with most free GPUs comes first.
        """
        demands = self.demands(job, gpus)
        if not self.state.capacity.nodes:
            return demands, None  # they all fail, and the job waits for nodes to join
        denials, admitted = [], []
        for demand in demands:
            denial = self.state.capacity.infeasible(demand) or self.quota_denial(job, demand)
            if denial is None:
                admitted.append(demand)
            else:
                denials.append(denial)
        if not admitted:
            # Of several types, report one that waiting can help.
            return (), min(denials, key=lambda denial: denial.reason in UNSCHEDULABLE)
        if len(admitted) > 1 and not job.request.gpu_types:
            admitted.sort(key=lambda demand: (-self.state.free.gpus(demand.gpu_type), demand.gpu_type))
        return admitted, None

    def quota_denial(self, job: Job, demand: Demand) -> Denial | None:
        """The reason that the admission denies the job the demand; None if it does not."""
        found = self.ledger.offer(job, demand.config)
        return found if isinstance(found, Denial) else None

    def admitted_without(self, job: Job, runs: Iterable[Running]) -> bool:
        """True if the quota would admit one of the job's demands if these runs had ended."""
        gone = list(runs)
        for run in gone:
            self.ledger.give(run.job, run.allocations)
        admitted = any(self.quota_denial(job, demand) is None for demand in self.demands(job))
        for run in gone:
            self.ledger.take(run.job, run.allocations)
        return admitted

    # Placing

    @property
    def limit_reached(self) -> bool:
        """True if this cycle has placed as many jobs as it may."""
        return len(self.places) + len(self._deferred_lots) >= self.max_places

    def place(self, job: Job, demands: Iterable[Demand], *, limited: bool = True) -> bool:
        """Place the job by the first demand that fits. Returns whether it was placed.

        Unless `limited`, the limit of placements does not apply.
        """
        key = self.ledger.key(job)
        for demand in demands:
            if self._failures.imply(demand, key):
                continue
            if limited and self.limit_reached:
                self.deferred.add(job.id)
                return False
            if self._place_as(job, demand):
                return True
            self._failures.add(demand, key)
        return False

    def place_instead(self, job: Job, victims: Iterable[Running], detail: str, claim: Claim | None = None) -> bool:
        """Preempt as few of `victims` as the job needs, and place it. Returns whether it was placed.

        1. Release victims in their order until quota, claim and placement accept the job. While the job lacks quota,
           release only victims that share it.
        2. Undo the releases that the job turns out not to need, the last one first.
        """
        if self.limit_reached:
            return False
        candidates = Candidates(victims)
        for demand in self.demands(job) if claim is None else claim.demands:
            free = self.state.free.gpus(demand.gpu_type) - self._deferred_gpus[demand.gpu_type]
            if not candidates.hold(demand.gpus_total - free):
                continue
            if self.state.capacity.infeasible(demand) is None and self._place_instead(
                job, demand, candidates, detail, claim
            ):
                return True
        return False

    def service_classes(self) -> Iterator[JobClass | None]:
        """The job classes to serve one after the other; None: all jobs together.

        Guaranteed jobs that may reclaim GPUs go first, so that no opportunistic job starts only to be preempted; and
        if the ledger lends, jobs within a share of their own go before those that borrow.
        """
        if not self.admission.reclaims:
            yield None
            return
        for level in range(self.ledger.levels()):
            self._level = level
            self.ledger.limit_to(level)
            yield JobClass.GUARANTEED
            self.waits_behind.clear()
            self.pending_reasons.clear()
        self._level = None
        self.ledger.limit_to(None)
        yield JobClass.GUARANTEED
        yield JobClass.OPPORTUNISTIC

    @contextmanager
    def beyond_shares(self) -> Iterator[None]:
        """Offer all that the ledger may within the block, also in a pass of jobs within shares."""
        self.ledger.limit_to(None)
        try:
            yield
        finally:
            self.ledger.limit_to(self._level)

    def reclaimable(self, job: Job) -> Sequence[Running]:
        """The running jobs whose GPUs the job may reclaim, in the order in which they go.

        If more of them may go later, it asks for another decision then.
        """
        lent = self._lent(job)
        if len(lent) < 2 or not self.ledger.reclaims_fewest():
            return lent
        demand = self.demands(job)[0]
        denial = self.quota_denial(job, demand)
        lacking = demand.gpus_total - self.state.free.gpus(demand.gpu_type)
        lacking = max(lacking, 1 if denial is None else denial.wanted)
        by_class = ([run for run in lent if run.job.job_class is each] for each in reversed(JobClass))
        return [run for runs in by_class for run in self._loans.fewest_first(runs, demand, lacking)]

    def lent_of_quota(self, job: Job) -> Sequence[Running]:
        """Those of `reclaimable` whose GPUs may be quota that the job lacks, newest first."""
        return self._lent(job, of_quota=True)

    def _lent(self, job: Job, *, of_quota: bool = False) -> Sequence[Running]:
        if not self.admission.reclaims or self.admission.chooses_gpus:  # whose grants name the jobs to evict
            return ()
        lent = self._loans.of(job, of_quota=of_quota)
        if lent.next_at is not None:
            self.wake_at(min(lent.next_at, self.now + MAX_WAKE_S))
        return [run for run in lent.runs if self.stays(run)]

    def on_loan(self, job: Job, run: Running) -> bool:
        """True if the running job could reclaim the GPUs that the job would get from it."""
        return self.admission.reclaims and self.ledger.on_loan(job, run.job, self._loans.type_of(run))

    def may_reclaim(self, job: Job, run: Running) -> bool:
        """True if the job may still reclaim from a run of `reclaimable`; True for other runs."""
        return not self.admission.reclaims or self._loans.may_still_go(run, job)

    @cached_property
    def _loans(self) -> Loans:
        return Loans(self.view, self.state.free, self.ledger)

    def take(self, job: Job, allocations: tuple[AllocationView, ...], batch: int | None = None) -> None:
        """Place the job on these allocations, which must be free or have free slots for a sharing job."""
        shared: set[int] = set()
        if job.request.shares_gpu:
            allocations = tuple(replace(share, slots=job.slots) for share in allocations)
            shared = {gpu_id for share in allocations for gpu_id in share.gpu_ids} - self._shared_out
            self._shared_out |= shared
        self.state.free.take(allocations)
        self.ledger.take(job, allocations)
        self.places[job.id] = Place(job.id, allocations, with_batch(self.given.get(job.id, ()), batch))
        if self._undo is not None:
            self._undo.append(lambda: self._untake(job, allocations, shared))

    def _untake(self, job: Job, allocations: tuple[AllocationView, ...], shared: set[int]) -> None:
        self.state.free.give(allocations)
        self.ledger.give(job, allocations)
        del self.places[job.id]
        self._shared_out -= shared

    def keep_free(self, job: Job, demand: Demand) -> None:
        """Keep free GPUs for a job within its share that found no room, until jobs have stopped that stop already."""
        if self._level is not None:
            self._kept_free.keep(job, demand)

    def release(self, run: Running) -> None:
        """Count the resources of a running job as free from now on."""
        self.state.free.give(run.allocations)
        self.ledger.give(run.job, run.allocations)
        self._failures.forget()
        if self._undo is not None:
            self._undo.append(lambda: self.undo_release(run))

    def undo_release(self, run: Running) -> None:
        """Undo a `release`. The resources of the run must still be free."""
        self.state.free.take(run.allocations)
        self.ledger.take(run.job, run.allocations)
        if self._undo is not None:
            self._undo.append(lambda: self.release(run))

    def preempt(self, run: Running, for_job_id: int | None, detail: str) -> None:
        """Add the preemption of a released job to the plan."""
        self.preempts[run.job.id] = Preempt(run.job.id, for_job_id, detail)
        if self._undo is not None:
            self._undo.append(lambda: self.preempts.__delitem__(run.job.id))

    def keep(self, run: Running) -> None:
        """Withdraw the preemption of a job whose resources are still free."""
        self.undo_release(run)
        del self.preempts[run.job.id]

    def note(self, job: Job, run: Running | None, policy_state: Mapping[str, float]) -> None:
        """Store policy state with a job, for the rest of this decision and for the next ones."""
        before = self.notes.get(job.id)
        self.notes[job.id] = Note(job.id, policy_state)
        self._index(replace(job, policy_state=policy_state), run)
        if self._undo is not None:
            self._undo.append(lambda: self._unnote(job, run, before))

    def _unnote(self, job: Job, run: Running | None, before: Note | None) -> None:
        if before is None:
            del self.notes[job.id]
        else:
            self.notes[job.id] = before
        self._index(job, run)

    def _index(self, job: Job, run: Running | None) -> None:
        if run is None:
            self.state.add_waiting(job)
        else:
            self.state.add_running(replace(run, job=job))

    @contextmanager
    def attempt(self) -> Iterator[Attempt]:
        """Undo all places, preemptions, releases and notes of the block, unless it calls `keep` on the attempt."""
        self.bind_deferred_lots()
        outer, steps = self._undo, list[Callable[[], None]]()
        self._undo, attempt = steps, Attempt()
        try:
            yield attempt
        finally:
            self._undo = None  # the undoing steps are not recorded
            if not attempt.kept:
                for step in reversed(steps):
                    step()
                self._failures.forget()
            elif outer is not None:
                outer += steps
            self._undo = outer

    def wake_at(self, moment: float) -> None:
        """Ask for another decision at the moment, even without an event; the earliest moment of a cycle counts.

        Raises:
            ValueError: the moment is not a number, less than a millisecond after now, or more than a year.
        """
        if not self.now + MIN_WAKE_S <= moment <= self.now + MAX_WAKE_S:
            raise ValueError(f"wake_at: {moment} is not a time within a year after now, {self.now}")
        self.wakes_at = moment if self.wakes_at is None else min(self.wakes_at, moment)

    def stays(self, run: Running) -> bool:
        """True if the run is neither stopping nor preempted so far."""
        return run.job.id not in self.preempts and not run.stopping

    def _may_defer(self, demand: Demand) -> bool:
        anywhere = demand.divisible and demand.within is Locality.ANY and not demand.cpus and not demand.memory_mib
        return anywhere and self._defers and not demand.closed and self._undo is None

    def _place_as(self, job: Job, demand: Demand) -> bool:
        if not self._kept_free.leave(job, demand):
            return False
        if self._may_defer(demand):
            if self.state.free.gpus(demand.gpu_type) - self._deferred_gpus[demand.gpu_type] < demand.gpus:
                return False
            self._deferred_lots.append((job, demand))
            self._deferred_gpus[demand.gpu_type] += demand.gpus
            self.ledger.promise(job, str(demand.gpu_type), demand.gpus)
            return True
        self.bind_deferred_lots()
        grant = self.ledger.offer(job, demand.config) if self.admission.chooses_gpus else ANY_GPUS
        if isinstance(grant, Denial):
            return False
        evicted = self._released(job, grant)
        allocations = self._find_as(job, demand, grant)
        if allocations is None:
            for run in reversed(evicted):
                self.undo_release(run)
            return False
        self.take(job, allocations, demand.batch)
        for run in evicted:
            self.preempt(run, job.id, "its GPUs are promised to the virtual cluster of another job")
        return True

    def _released(self, job: Job, grant: Grant) -> Sequence[Running]:
        """The running jobs that the grant evicts, released."""
        runs = [self.view.running_by_job.get(job_id) for job_id in grant.evicts]
        may_stop = [run for run in runs if run is not None and run.evictable and self.stays(run)]
        if len(may_stop) < len(runs):
            raise AdmissionError(f"the admission evicts jobs {grant.evicts} for job {job.id}; not all run and may stop")
        for run in may_stop:
            self.release(run)
        return may_stop

    def bind_deferred_lots(self) -> None:
        """Choose GPUs for the deferred lots."""
        lots, self._deferred_lots = self._deferred_lots, []
        self._deferred_gpus.clear()
        for job, demand in lots:
            self.ledger.promise(job, str(demand.gpu_type), -demand.gpus)
            allocations = self.find(job, demand)
            if allocations is None:
                raise RuntimeError(
                    f"the placement breaks its contract: it finds no room for {demand} although enough GPUs are free"
                )
            self.take(job, allocations, demand.batch)

    def _place_instead(
        self, job: Job, demand: Demand, candidates: Iterable[Running], detail: str, claim: Claim | None
    ) -> bool:
        if not self._may_defer(demand):
            self.bind_deferred_lots()  # before releases that may be undone: a lot must not take their GPUs
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
        self, job: Job, demand: Demand, candidates: Iterable[Running], gone: list[Running], claim: Claim | None
    ) -> bool:
        def fits() -> bool:
            return (claim is None or claim.admits(gone)) and self._place_as(job, demand)

        later = []
        for run in candidates:
            if not self.may_reclaim(job, run):
                continue
            if self.quota_denial(job, demand) is not None and not self.ledger.share_quota(run.job, job):
                later.append(run)
                continue
            self.release(run)
            gone.append(run)
            if self.quota_denial(job, demand) is None and fits():
                return True
        if self.quota_denial(job, demand) is not None:
            return False
        for run in later:
            if not self.may_reclaim(job, run):
                continue
            self.release(run)
            gone.append(run)
            if fits():
                return True
        return False

    def can_stay(self, run: Running) -> bool:
        """True if a released job can keep its resources: they are free, not promised to a lot, and within quota."""
        if not self.has_room_for(run):
            return False
        with self.beyond_shares():
            held, nodes = self._types_of(run).items(), len(run.allocations)
            offers = [self.ledger.offer(run.job, Config(kind, gpus, nodes=nodes)) for kind, gpus in held]
        return not any(isinstance(offer, Denial) for offer in offers)

    def has_gpus_for(self, run: Running) -> bool:
        """True if this cycle has given no GPU of a released job to another job."""
        gpu_ids = (gpu_id for share in run.allocations for gpu_id in share.gpu_ids)
        if run.job.request.shares_gpu and any(gpu_id in self._shared_out for gpu_id in gpu_ids):
            return False  # the new job on the GPU starts only when the whole GPU is released
        return self.state.free.has_gpus(run.allocations)

    def has_room_for(self, run: Running) -> bool:
        """As `can_stay`, without the quota."""
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
        """The GPUs of each type that a released job would take again, without those that another job still shares."""
        free = self.state.free
        gpu_ids = (gpu_id for share in run.allocations for gpu_id in share.gpu_ids)
        return Counter(free.type_of(gpu_id) for gpu_id in gpu_ids if not free.room_on(gpu_id))

    # The plan

    def plan(self) -> Plan:
        """The plan without its holds."""
        self.bind_deferred_lots()
        return Plan(
            places=tuple(self.places.values()),
            holds=(),
            preempts=tuple(sorted(self.preempts.values(), key=lambda preempt: preempt.job_id)),
            notes=tuple(sorted(self.notes.values(), key=lambda note: note.job_id)),
            drops=tuple(sorted(self.drops)),
            pool_state=self.pool_state,
            wake_at=self.wakes_at,
        )


def backoff_reason(job: Job, now: float) -> Denial | None:
    """The reason that the job may not start yet; None if it may."""
    if job.still_stopping:
        return Denial(
            HoldReason.STILL_STOPPING,
            "the last attempt of this job has not released all its nodes",
            {},
            ("its last processes end",),
        )
    if job.eligible_at > now:
        # A time, not a countdown: a hold that changes in each cycle would be written in each cycle.
        moment = datetime.fromtimestamp(job.eligible_at, UTC).isoformat(timespec="seconds")
        if not job.requeued_at:
            helps = ("nothing to do: it is scheduled from then on",)
            return Denial(HoldReason.BEGIN, f"begins at {moment}", {"eligible_at": job.eligible_at}, helps)
        return Denial(
            HoldReason.BACK_OFF,
            f"this job is tried again at {moment}",
            {"eligible_at": job.eligible_at},
            ("nothing to do: it retries by itself",),
        )
    return None
