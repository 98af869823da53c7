"""The discrete-event simulation: what happens to the jobs of a trace, decided by the functions of production.

1. Things happen: a job arrives, ends, lets go of its GPUs, or reaches a moment that its policy asked to be told.
2. When all that happens at one moment has happened, or a round is over, the policy decides on the state.
3. The law is checked on the plan, the plan is carried out, and new ends are computed.

There is no randomness here, and ties are broken by the order of the trace: the same trace and options give the same
result, bit by bit.
"""

from __future__ import annotations

import heapq
import math
import resource
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from time import perf_counter

from scheduler.engine.cycle import compose, decide_on
from scheduler.engine.policy import PeriodicPolicy
from scheduler.engine.state import SchedulerState
from scheduler.model import SLOTS, AllocationView, Job, Reservation, Running
from scheduler.model.invariants import awaits_preemption, check
from scheduler.model.lifecycle import AttemptState, JobClass
from scheduler.model.plan import RESERVATION_S, Plan
from scheduler.placement.free import Demand, Free
from scheduler.sim.clocks import Clocks
from scheduler.sim.cluster import ClusterSpec
from scheduler.sim.failures import FAILED, SUCCEEDED, FailureClass, Failures, attempted
from scheduler.sim.options import Options, Oracle
from scheduler.sim.oracle import Forecast, estimated
from scheduler.sim.result import JobRecord, Result
from scheduler.sim.screening import trials
from scheduler.sim.sharing import Sharing
from scheduler.sim.trace import Trace, TraceError, TraceJob
from scheduler.sim.work import Layout
from scheduler.sim.world import World

Progress = Callable[[int, int, float], None]  # jobs that ended, jobs in all, seconds simulated

# What happens at one moment happens in this order: GPUs come free before anybody new asks for them.
_END, _RELEASE, _ARRIVE, _RETRY, _WAKE = range(5)

# Over which a speed is measured: so short that hardly a job ends meanwhile.
_MOMENT_S = 1e-3


class SimulationError(RuntimeError):
    """The simulation caught itself in a mistake: an unlawful plan, or accounts that do not agree."""


def simulate(trace: Trace, cluster: ClusterSpec, options: Options, progress: Progress | None = None) -> Result:
    """What becomes of every job of the trace on the cluster; raises a `TraceError` for a job that can never run."""
    return _Simulation(trace, cluster, options).run(progress)


@dataclass(slots=True)
class _Doing:
    """What a job is up to: how far its work is, and since when it computes at which speed."""

    done: float = 0.0
    version: int = 0  # raised whenever what was foreseen for the job no longer holds
    since: float = 0.0
    gpu_type: str = ""
    layout: Layout = ()
    speed: float = 1.0
    useful_gpu_s: float = 0.0  # computing in this attempt, but for what was lost


class _Simulation:
    def __init__(self, trace: Trace, cluster: ClusterSpec, options: Options) -> None:
        self.trace = trace = attempted(trace, options.failures, options.seed)
        self.options = options
        self.parts = compose(options.config)
        self.introspective = isinstance(self.parts.policy, PeriodicPolicy)
        self.world = World(cluster, _quotas(trace, cluster, options), options.seed)
        self.state = SchedulerState(self.world)
        self.state.due = set()
        self.jobs: dict[int, TraceJob] = {job.id: job for job in trace.jobs}
        self.owners = {name: number for number, name in enumerate(sorted({job.owner for job in trace.jobs}), start=1)}
        self.doing: dict[int, _Doing] = {}
        self.records = {job.id: _record(job) for job in trace.jobs}
        self.clocks = Clocks(self.world, self.state)
        self.forecast = Forecast(options.oracle, cluster)
        # (moment, what, job id, version); a version that is no longer the job's is a promise that was broken since
        self.ended = 0
        arrivals = self._screened(trace)
        self.events: list[tuple[float, int, int, int]] = [(at, _ARRIVE, job_id, 0) for job_id, at in arrivals.items()]
        heapq.heapify(self.events)
        self.distributed: Counter[int] = Counter()  # jobs on several nodes, by node
        self.elastic: set[int] = set()  # ids of the jobs of any size that run
        self.held_back: dict[int, tuple[AllocationView, ...]] = {}
        self.resting: dict[int, Job] = {}  # failed, and not yet in the queue again
        self.attempts = 0
        self.changed = False
        self.sharing = Sharing(trace.throughputs)
        self.used_until = 0.0  # until when the GPU-seconds of the result are counted
        self.result = Result(options.policy, trace.name, sum(cluster.gpus.values()), [])

    def run(self, progress: Progress | None) -> Result:
        """Let everything happen."""
        started = told = perf_counter()
        while self.events:
            self._until(self._next_decision())
            if self.changed or self.state.due:
                self._decide()
            if progress is not None and perf_counter() - told > 0.1:
                told = perf_counter()
                progress(self.ended, len(self.jobs), self.world.now)
        self._audit()
        result = self.result
        result.records = [self.records[job.id] for job in self.trace.jobs]
        ends = [record.ended_s for record in result.records if record.ended_s is not None]
        first = min((job.submitted_s for job in self.trace.jobs), default=0.0)
        result.makespan_s = max(ends, default=first) - first
        result.unfinished = sum(record.ended_s is None for record in result.records)
        result.timeline = self.clocks.timeline
        result.wall_s = perf_counter() - started
        result.peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return result

    def _screened(self, trace: Trace) -> dict[int, float]:
        """When each job comes to the policy; what was caught by its trial and is not tried again never does."""
        arrivals = {job.id: job.submitted_s for job in trace.jobs}
        screening = self.options.screening
        if screening is None:
            return arrivals
        for job_id, trial in trials(trace, screening).items():
            record, job = self.records[job_id], self.jobs[job_id]
            arrivals[job_id] = trial.over_s
            record.screening_s = trial.over_s - job.submitted_s
            record.screening_gpu_s = trial.gpu_s
            again = job.failure == FailureClass.HOPELESS and self.options.retries_hopeless
            failed_gpu_s = job.gpus * job.work.alone_s() * (1 + self.options.retries * again)
            if job.status == FAILED and job.work.alone_s() <= screening.window_s:
                record.saveable_gpu_s = failed_gpu_s
            if not trial.caught:
                continue
            record.caught, record.saved_gpu_s, record.outcome = True, failed_gpu_s, FAILED
            if job.failure == FailureClass.TRANSIENT and self.options.retries:
                record.attempts += 1  # and the next one succeeds
                continue
            record.started_s, record.ended_s = trial.started_s, trial.over_s
            self.ended += 1
            del arrivals[job_id]
        return arrivals

    def _next_decision(self) -> float:
        """When to decide next: at the next event, or at the end of the round in which it is."""
        moment, round_s = self.events[0][0], self.options.round_s
        if round_s > 0:
            moment = math.ceil(moment / round_s) * round_s
        return max(moment, self.options.first_round_s)

    def _until(self, moment: float) -> None:
        """Let happen what happens until then, that moment included."""
        world, happenings = self.world, (self._end, self._release, self._arrive, self._retry, self._wake)
        while self.events and self.events[0][0] <= moment:
            at, what, job_id, version = heapq.heappop(self.events)
            world.now = max(world.now, at)
            happenings[what](job_id, version)
            self.result.events += 1
            if self.result.events % self.options.audit_every == 0:
                self._audit()
        world.now = moment

    # What happens

    def _arrive(self, job_id: int, _version: int) -> None:
        job = self._job(self.jobs[job_id])
        denials = [self.state.capacity.infeasible(demand) for demand in self._demands(job)]
        if None not in denials:
            if not self.options.skip_infeasible:
                reason = "; ".join(denial.detail for denial in denials if denial is not None)
                raise TraceError(f"job {job_id} ({self.jobs[job_id].name}): {reason}")
            self.records[job_id].outcome = "infeasible"
            return
        self.doing[job_id] = _Doing()
        self.clocks.active(1)
        self.records[job_id].contention = -self.clocks.job_seconds()
        self._wait(job)

    def _end(self, job_id: int, version: int) -> None:
        doing = self.doing.get(job_id)
        if doing is None or doing.version != version:
            return
        run = self.world.running_by_job[job_id]
        self._let_go(run)
        self.state.free.give(run.allocations)
        self.state.count(run.job, run.allocations, -1)
        self.clocks.touch(run.job.vc_id)
        self.changed = True
        record, now = self.records[job_id], self.world.now
        if self._failed(run):
            return
        record.ended_s = float(round(now)) if self.options.whole_ends else now
        self.clocks.active(-1)
        stayed_s = now - record.submitted_s
        total = record.contention + self.clocks.job_seconds()
        record.contention = total / stayed_s if stayed_s > 0 else 1.0
        del self.doing[job_id]
        self.ended += 1
        took_s = run.ran_s(now) if run.job.checkpoints else now - run.placed_at
        waiting = self.world.waiting_by_id
        for other_id, expected_s in self.forecast.ended(self.jobs[job_id], took_s, waiting):
            waiting[other_id] = estimated(waiting[other_id], expected_s)
            self.state.add_waiting(waiting[other_id])

    def _failed(self, run: Running) -> bool:
        """Whether the attempt failed and there will be another one, in which the job begins anew."""
        traced, record, doing = self.jobs[run.job.id], self.records[run.job.id], self.doing[run.job.id]
        if not traced.failure or self.options.failures is Failures.NONE:
            return False
        hopeless = traced.failure == FailureClass.HOPELESS
        if not hopeless and record.attempts > 1:
            record.outcome = SUCCEEDED
            return False
        record.failed_gpu_s += doing.useful_gpu_s
        doing.done = doing.useful_gpu_s = 0.0
        record.outcome = FAILED
        if record.attempts > self.options.retries or (hopeless and not self.options.retries_hopeless):
            return False
        record.attempts += 1
        self.resting[run.job.id] = self._requeued(run)
        at = self.world.now + self.options.retry_after_s
        heapq.heappush(self.events, (at, _RETRY, run.job.id, doing.version))
        return True

    def _retry(self, job_id: int, _version: int) -> None:
        """A job that failed has rested, and waits for its next attempt."""
        self._wait(replace(self.resting.pop(job_id), requeued_at=self.world.now))

    def _release(self, job_id: int, version: int) -> None:
        """A preempted job has saved its state, and its GPUs are free for whom they are kept."""
        if self.doing[job_id].version == version:
            run = self.world.running_by_job[job_id]
            self._let_go(run)
            self.state.free.give(self.held_back.pop(job_id))
            self.state.count(run.job, run.allocations, -1)
            self._wait(self._requeued(run))

    def _wake(self, job_id: int, version: int) -> None:
        doing = self.doing.get(job_id)
        if doing is not None and doing.version == version and self.state.due is not None:
            self.state.due.add(job_id)

    # What is decided

    def _decide(self) -> None:
        self.changed = False
        due = self.state.due or set()
        self._measure()
        plan = decide_on(self.state, self.parts, max_places=self.options.config.max_places, explain=False)
        self.result.decisions += 1
        violations = check(self.world, plan, self.parts.admission)
        if violations:
            raise SimulationError(f"at {self.world.now:g}s the plan is unlawful: {violations[0].message}")
        self._apply(plan)
        self.state.due = set()
        due |= {note.job_id for note in plan.notes}
        for job_id in due - {place.job_id for place in plan.places} - {one.job_id for one in plan.preempts}:
            self._foresee_change(job_id)
        self.clocks.sample(len(self.world.holders_of_gpu))

    def _measure(self) -> None:
        """Correct predictions: of jobs that outlived theirs, and of elastic ones, whose epochs progress unevenly."""
        for run in self.forecast.corrected(self.world):
            self.world.running_by_job[run.job.id] = run
            self.state.add_running(run)
        if self.options.oracle is not Oracle.PERFECT:
            return
        for job_id in sorted(self.elastic):
            run = self.world.running_by_job[job_id]
            self._bank(run)
            left_s = self.jobs[job_id].work.remaining_s(self.doing[job_id].done)
            since_placed_s = self.world.now - run.placed_at
            corrected_s = left_s + since_placed_s * run.job.speed_on(run.gpus)
            run = replace(run, job=replace(run.job, remaining_s=corrected_s))
            self.world.running_by_job[job_id] = run
            self.state.add_running(run)

    def _apply(self, plan: Plan) -> None:
        for note in plan.notes:
            self.world.note(note.job_id, note.memo)
            self._foresee_change(note.job_id)
        placed = {place.job_id: place for place in plan.places}
        moving: dict[int, Job] = {}
        over = placed.keys() | set(plan.drops)
        kept = {one.job_id: one for one in self.world.reservations if one.job_id not in over}
        # Without a grace, those who have to stop are gone before anybody is started.
        waits = awaits_preemption(self.world, plan, self.parts.admission) if self.options.grace_s else frozenset[int]()
        for preempt in plan.preempts:
            run = self.world.running_by_job[preempt.job_id]
            self.clocks.touch(run.job.vc_id)
            record = self.records[run.job.id]
            if preempt.job_id == preempt.for_job_id:
                record.moves += 1
            else:
                record.preemptions += 1
            if self.options.grace_s > 0:
                self._begin_stop(run, {gpu_id for place in plan.places for gpu_id in _gpus(place.allocations)})
                continue
            self._let_go(run)
            job = self._requeued(run)
            if job.id in placed:
                moving[job.id] = job
            else:
                self._wait(job)
        for place in plan.places:
            if place.job_id in waits:
                kept[place.job_id] = Reservation(place.job_id, place.allocations, self.world.now + RESERVATION_S)
                self.state.remove_waiting(place.job_id)
                continue
            job = moving.get(place.job_id) or self.world.waiting_by_id[place.job_id]
            if place.job_id not in moving:
                self.clocks.leave(job, self.records[job.id])
                self.state.remove_waiting(job.id)
            self._start(job, place.allocations)
        if kept or self.world.reservations:
            self.world.reserve(kept.values())

    def _start(self, job: Job, allocations: tuple[AllocationView, ...]) -> None:
        world, options = self.world, self.options
        self.attempts += 1
        self._count_use()
        run = world.start(job, allocations, self.attempts)
        self.state.add_running(run)
        self.forecast.started(run)
        if job.speeds:
            self.elastic.add(job.id)
        self.clocks.touch(job.vc_id)
        record, doing = self.records[job.id], self.doing[job.id]
        restart_s = options.restart_s
        if record.started_s is None:
            record.started_s = world.now
            restart_s = options.restart_s if options.first_start_s is None else options.first_start_s
        doing.since = world.now + restart_s
        doing.gpu_type = world.gpu_by_id[allocations[0].gpu_ids[0]].type if run.gpus else ""
        doing.layout = tuple(len(share.gpu_ids) for share in allocations)
        neighbours = self._settle_in(run, 1)
        self._foresee_end(run)
        for neighbour in neighbours:
            self._foresee_end(world.running_by_job[neighbour])
        self._foresee_change(job.id)

    def _begin_stop(self, run: Running, promised: set[int]) -> None:
        """The job computes no more, and holds its GPUs until its grace is over; some are promised to others by then."""
        self._bank(run)
        doing = self.doing[run.job.id]
        doing.version += 1
        doing.since = math.inf
        self.state.remove_running(run.job.id)
        self.elastic.discard(run.job.id)
        stopping = replace(run, state=AttemptState.STOPPING)
        self.world.running_by_job[run.job.id] = stopping
        self.state.add_running(stopping)
        at = self.world.now + self.options.grace_s
        heapq.heappush(self.events, (at, _RELEASE, run.job.id, doing.version))
        # The decision counted all that it holds as free. What nobody was promised is not, until it is let go.
        self.held_back[run.job.id] = tuple(
            replace(share, gpu_ids=tuple(gpu_id for gpu_id in share.gpu_ids if gpu_id not in promised))
            for share in run.allocations
        )
        self.state.free.take(self.held_back[run.job.id])
        self.state.count(run.job, run.allocations, 1)

    def _let_go(self, run: Running) -> None:
        """Take its GPUs from a job, and put what it did with them on its record."""
        job_id, now = run.job.id, self.world.now
        self._bank(run)
        self._count_use()
        self.doing[job_id].version += 1
        self.world.stop(run)
        self.state.remove_running(job_id)
        self.elastic.discard(job_id)
        gpus, held_s, record = run.gpus, now - run.placed_at, self.records[job_id]
        record.run_s += held_s
        record.service_gpu_s += gpus * held_s
        record.overhead_gpu_s = record.service_gpu_s - record.failed_gpu_s - self.doing[job_id].useful_gpu_s
        for neighbour in self._settle_in(run, -1):
            self._foresee_end(self.world.running_by_job[neighbour])

    def _count_use(self) -> None:
        """Count the GPU-seconds since the last time that somebody came or went."""
        self.result.busy_gpu_s += len(self.world.holders_of_gpu) * (self.world.now - self.used_until)
        self.used_until = self.world.now

    def _requeued(self, run: Running) -> Job:
        """The job as it waits again, with what it has had on its account."""
        now, doing, traced = self.world.now, self.doing[run.job.id], self.jobs[run.job.id]
        if not traced.checkpoints:
            doing.done = doing.useful_gpu_s = 0.0
        job = replace(run.job, attained_gpu_s=run.attained_gpu_s(now), ran_s=run.ran_s(now), requeued_at=now)
        return self.forecast.requeued(job, traced, doing.done)

    def _wait(self, job: Job) -> None:
        self.world.waiting_by_id[job.id] = job
        self.state.add_waiting(job)
        self.clocks.enter(job)
        self.changed = True
        self._foresee_change(job.id)

    # What is foreseen

    def _bank(self, run: Running) -> None:
        """Add what was computed since the last time to the progress."""
        doing = self.doing[run.job.id]
        computed_s = self.world.now - doing.since
        if computed_s > 0:
            work = self.jobs[run.job.id].work
            doing.done = work.advance(doing.done, doing.gpu_type, doing.layout, doing.speed, computed_s)
            doing.useful_gpu_s += computed_s * sum(doing.layout)
            doing.since = self.world.now

    def _foresee_end(self, run: Running) -> None:
        """Say when the job will have done its work, at the speed that it has now."""
        if run.stopping:
            return
        doing, job = self.doing[run.job.id], self.jobs[run.job.id]
        self._bank(run)
        rate = self._rate(run)
        doing.speed = self._speed(run, rate)
        per_s = self._per_s(run)
        left_s = job.work.seconds_left(doing.done, doing.gpu_type, doing.layout, doing.speed)
        predicted = self.forecast.at_speed(run, job, doing.done, left_s, self.world.now)
        if predicted is not run or (rate, per_s) != (run.rate, run.speed):
            run = self.world.measure(predicted, rate, per_s)
            self.state.add_running(run)
        doing.version += 1
        if rate == 0.0:  # it gets nowhere beside the other one, until one of them goes
            self._foresee_change(run.job.id)
            return
        if math.isinf(left_s):
            raise TraceError(
                f"job {job.id} ({job.name}) makes no progress on {doing.gpu_type}: its work names no speed"
            )
        heapq.heappush(self.events, (max(doing.since, self.world.now) + left_s, _END, run.job.id, doing.version))
        self._foresee_change(run.job.id)

    def _foresee_change(self, job_id: int) -> None:
        """Have the job looked at again when the policy wants to, or when the placement lets it lie further apart."""
        run = self.world.running_by_job.get(job_id)
        job = run.job if run is not None else self.world.waiting_by_id.get(job_id)
        if job is None or (run is not None and run.stopping):
            return
        moments = [self.parts.policy.next_change(job, run, self.world.now)]
        if run is None:
            moments.append(self.parts.placement.relaxes_at(job, self.world.now))
        at = min((moment for moment in moments if moment is not None), default=None)
        if at is not None:
            heapq.heappush(self.events, (max(at, self.world.now), _WAKE, job_id, self.doing[job_id].version))

    def _settle_in(self, run: Running, times: int) -> Iterable[int]:
        """Count a distributed job on its nodes; the jobs there, and those on its own GPUs, whose speed that changes."""
        if run.job.packs:
            return sorted({*self._beside(run), *self._scatter(run, times)})
        return self._scatter(run, times)

    def _scatter(self, run: Running, times: int) -> Iterable[int]:
        if len(run.allocations) < 2 or not self.options.interference:
            return ()
        affected: set[int] = set()
        for share in run.allocations:
            self.distributed[share.node_id] += times
            node = self.world.node_by_id[share.node_id]
            affected |= {holder for gpu in node.gpus for holder in self.world.holders_of_gpu.get(gpu.id, ())}
        return sorted(job_id for job_id in affected - {run.job.id} if len(self.doing[job_id].layout) > 1)

    def _beside(self, run: Running) -> Iterable[int]:
        """The ids of the jobs that share GPUs with this one."""
        there = {job_id for gpu_id in _gpus(run.allocations) for job_id in self.world.holders_of_gpu.get(gpu_id, ())}
        return sorted(there - {run.job.id})

    def _rate(self, run: Running) -> float | None:
        """How fast the job is beside those who share its GPUs, the worst of them; None if nobody does."""
        if not run.job.packs:
            return None
        job, gpu_type = self.jobs[run.job.id], self.doing[run.job.id].gpu_type
        return min(
            (self.sharing.rate(job, self.jobs[other], gpu_type) for other in self._beside(run)),
            default=None,
        )

    def _per_s(self, run: Running) -> float | None:
        """Its progress per second where it is, if the policy may change that, and judge by it."""
        if not self.introspective or not (len(run.allocations) > 1 or run.job.max_gpus or run.job.memo):
            return None
        doing, work = self.doing[run.job.id], self.jobs[run.job.id].work
        done = work.advance(doing.done, doing.gpu_type, doing.layout, doing.speed, _MOMENT_S)
        return (done - doing.done) / _MOMENT_S

    def _speed(self, run: Running, rate: float | None) -> float:
        options = self.options
        speed = 1.0 if rate is None else rate
        if len(run.allocations) < 2:
            return speed
        speed *= 1.0 - options.spread_penalty
        if options.rack_penalty and len({self.world.node_by_id[one.node_id].rack for one in run.allocations}) > 1:
            speed *= 1.0 - options.rack_penalty
        if options.interference and any(self.distributed[one.node_id] > 1 for one in run.allocations):
            speed *= 1.0 - options.interference
        return speed

    # Accounts

    def _audit(self) -> None:
        """Raise a `SimulationError` unless what the state says follows from what the world says."""
        world, state = self.world, self.state
        slots, holders = Counter[int](), Counter[int]()
        for run in world.running:
            for share in run.allocations:
                slots.update(dict.fromkeys(share.gpu_ids, share.slots))
                holders.update(share.gpu_ids)
        if any(taken > SLOTS for taken in slots.values()):
            raise SimulationError(f"at {world.now:g}s a GPU has more holders than it has room for")
        if {gpu_id: len(those) for gpu_id, those in world.holders_of_gpu.items()} != holders:
            raise SimulationError(f"at {world.now:g}s a GPU has a holder that nobody knows")
        if world.waiting_by_id.keys() & world.running_by_job.keys():
            raise SimulationError(f"at {world.now:g}s a job waits and runs")
        fresh = Free(world)
        for gpu_type in state.capacity.types:
            if fresh.gpus(gpu_type) != state.free.gpus(gpu_type):
                raise SimulationError(f"at {world.now:g}s the index of free {gpu_type} is wrong")
        if state.is_stale:
            raise SimulationError(f"at {world.now:g}s what somebody holds is wrong")
        whose = {gpu_id: world.running_by_job[holder].vc_id for gpu_id, (holder, *_) in world.holders_of_gpu.items()}
        counted = Counter((vc_id, world.gpu_by_id[gpu_id].type) for gpu_id, vc_id in whose.items())
        if counted != Counter({key: gpus for key, gpus in world.held_by_vc.items() if gpus}):
            raise SimulationError(f"at {world.now:g}s a virtual cluster's use is miscounted")

    def _demands(self, job: Job) -> list[Demand]:
        return [
            Demand(kind, job.gpus, job.nodes, job.cpus, job.memory_mib, job.split, job.locality, job.form)
            for kind in job.types_among(self.state.capacity.types) or job.gpu_types
        ]

    def _job(self, traced: TraceJob) -> Job:
        vc_id = self.world.vc_ids[traced.vc]
        perfect = self.options.oracle is Oracle.PERFECT
        expected_s = self.forecast.submitted(traced)
        memory_mib = traced.gpu_memory_mib
        if memory_mib is None and self.trace.throughputs is not None:
            memory_mib = 0  # what did not fit into the memory of a GPU has no speed beside the other in such a table
        return Job(
            id=traced.id,
            tenant_id=vc_id,
            vc_id=vc_id,
            owner_id=self.owners[traced.owner],
            priority=traced.priority,
            klass=JobClass.GUARANTEED,
            gpu_type=traced.gpu_type,
            gpu_types=traced.gpu_types,
            gpus=traced.gpus if traced.split else traced.gpus // traced.nodes,
            nodes=1 if traced.split else traced.nodes,
            cpus=traced.cpus,
            memory_mib=traced.memory_mib,
            submitted_at=traced.submitted_s,
            eligible_at=0.0,
            time_limit_s=traced.time_limit_s,
            grace_s=self.options.grace_s,
            attained_gpu_s=0.0,
            avoid_nodes=(),
            preemptible=traced.preemptible,
            still_stopping=False,
            split=traced.split,
            max_gpus=traced.max_gpus,
            speeds=traced.work.speeds() if traced.max_gpus and perfect else (),
            checkpoints=traced.checkpoints,
            expected_s=expected_s,
            remaining_s=expected_s,
            utilization=traced.gpu_utilization,
            gpu_memory_mib=memory_mib,
            packs=self.options.share and memory_mib is not None,
        )


def _gpus(allocations: Iterable[AllocationView]) -> Iterable[int]:
    return (gpu_id for share in allocations for gpu_id in share.gpu_ids)


def _record(job: TraceJob) -> JobRecord:
    return JobRecord(
        id=job.id,
        name=job.name,
        vc=job.vc,
        owner=job.owner,
        gpus=job.gpus,
        submitted_s=job.submitted_s,
        alone_s=job.work.alone_s(),
        outcome=job.status or "succeeded",
    )


def _quotas(trace: Trace, cluster: ClusterSpec, options: Options) -> Mapping[str, Mapping[str, int]]:
    """The quotas of all virtual clusters that the trace knows: what was given, what the trace says, or everything."""
    names = sorted({job.vc for job in trace.jobs})
    return {name: options.quotas.get(name) or trace.quotas.get(name) or cluster.gpus for name in names}
