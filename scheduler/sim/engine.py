"""The discrete-event simulation: what happens to the jobs of a trace, decided by production's functions.

1. Events occur: a job arrives, ends, frees its GPUs, or reaches a moment at which its policy wants to decide.
2. After all events of one moment, or at the end of a round, the policy decides on the state.
3. The invariants are checked on the plan, the plan is applied, and new ends are computed.

There is no randomness, and ties are broken by the order of the trace: the same trace and options give the same result
bit for bit.
"""

from __future__ import annotations

import heapq
import math
import resource
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import partial
from time import perf_counter

from scheduler.admission import Admission
from scheduler.admission.open import Open
from scheduler.engine.cycle import compose, decide_on
from scheduler.engine.policy import PeriodicPolicy
from scheduler.engine.state import SchedulerState
from scheduler.engine.wake import job_wake
from scheduler.model import AllocationView, Job, Reservation, Running
from scheduler.model.invariants import awaits_preemption, check
from scheduler.model.lifecycle import AttemptState
from scheduler.model.plan import RESERVATION_S, Place, Plan
from scheduler.placement.demand import Demand, demand_of
from scheduler.sim.audit import mistakes
from scheduler.sim.classes import JobClasses
from scheduler.sim.clocks import Clocks
from scheduler.sim.cluster import ClusterSpec, on_one_node
from scheduler.sim.failures import FAILED, SUCCEEDED, FailureClass, Failures, attempted
from scheduler.sim.forecast import Forecast
from scheduler.sim.groups import Groups
from scheduler.sim.learned import has_owners
from scheduler.sim.options import Options, Oracle
from scheduler.sim.result import Result, Span, record_of
from scheduler.sim.scheduled import scheduled_job, with_rates
from scheduler.sim.screening import arrivals_of
from scheduler.sim.sharing import Sharing
from scheduler.sim.speeds import Execution, Speeds
from scheduler.sim.start import Start
from scheduler.sim.trace import Trace, TraceError, TraceJob
from scheduler.sim.work import ChangingWork
from scheduler.sim.world import quotas_of, world_at, world_of

Progress = Callable[[int, int, float], None]  # ended jobs, all jobs, simulated seconds

# The order of events at one moment: GPUs become free before new jobs ask for them.
_END, _RELEASE, _ARRIVE, _RETRY, _WAKE = range(5)

# In the place of a job's id: the event is of the pool.
_POOL = -1

# Decisions between two checks by an admission that chooses GPUs.
_CHECKED_EVERY = 50

# Decisions that place nothing, with nothing that runs or arrives, after which nothing else is expected.
_IDLE = 1_000


class SimulationError(RuntimeError):
    """The simulation is inconsistent: a plan breaks an invariant, or the accounts disagree."""


def simulate(
    trace: Trace,
    cluster: ClusterSpec,
    options: Options,
    progress: Progress | None = None,
    start: Start | None = None,
) -> Result:
    """The result of every job of the trace on the cluster; of those of `start`, if the simulation goes on from there.

    Raises:
        TraceError: a job can never run.
    """
    return Simulation(trace, cluster, options, start).run(progress)


class Simulation:
    """One simulation; `process` and `decide` are the steps of its `run`. `told` replaces the options' predictions."""

    def __init__(
        self, trace: Trace, cluster: ClusterSpec, options: Options, start: Start | None, told: Forecast | None = None
    ) -> None:
        trace = on_one_node(trace, cluster) if options.one_node else trace
        self.trace = trace = attempted(trace, options.failures, options.seed)
        self.options = options
        self.profile = compose(options.config)
        if start is None:
            quotas = quotas_of(trace, cluster, options)
            self.world = world_of(cluster, quotas, options.seed, by_cells=self.profile.admission.has_cells)
        else:
            self.world = world_at(start.snapshot)
        self.world.half_life_s = getattr(self.profile.policy, "half_life_s", None)
        self.state = SchedulerState(self.world)
        self.state.use(self.profile.admission)
        self.began = self.world.now
        self.jobs: dict[int, TraceJob] = {job.id: job for job in trace.jobs}
        self.owners = {name: number for number, name in enumerate(sorted({job.owner for job in trace.jobs}), start=1)}
        self.executions: dict[int, Execution] = {}
        self.records = {job.id: record_of(job, self.world.quota_gpus[job.vc]) for job in trace.jobs}
        self.clocks = Clocks(self.world, self.state, self.profile.placement)
        self.classes = JobClasses(self.world, self.state, on=options.opportunistic)
        self.groups = Groups(trace, self.world)
        self.forecast = told or Forecast(options.oracle, cluster, owners=has_owners(trace))
        # (moment, event, job id, version); an event with another version than its job's is void
        self.events: list[tuple[float, int, int, int]] = []
        self.ended = 0
        self.changing = {job.id: job.work for job in trace.jobs if isinstance(job.work, ChangingWork)}
        self.elastic: set[int] = set()  # ids of the running jobs with a variable size
        self.stopping_shares: dict[int, tuple[AllocationView, ...]] = {}
        self.backing_off: dict[int, Job] = {}  # failed jobs that wait for their retry
        self.attempts = self.wishes = 0  # a decision voids the wish of the one before to be woken
        self.changed = False
        self.idle = 0  # decisions since anything ran or was placed
        sharing = Sharing(trace.throughputs)
        self.world.told_speed = partial(sharing.told, self.jobs)
        periodic = isinstance(self.profile.policy, PeriodicPolicy)
        self.speeds = Speeds(self.world, options, self.jobs, self.executions, sharing, measures=periodic)
        self.busy_counted_until = self.began  # busy GPU-seconds are counted until here
        self.result = Result(options.policy, trace.name, sum(cluster.gpus.values()), [])
        if start is None:
            self._await_arrivals()
        else:
            self._go_on(start)

    def run(self, progress: Progress | None) -> Result:
        """Process all events."""
        started = reported = perf_counter()
        while self.events and not self._is_stuck():
            self.process(self._next_decision())
            if self.undecided:
                self.decide()
            if progress is not None and perf_counter() - reported > 0.1:
                reported = perf_counter()
                progress(self.ended, len(self.jobs), self.world.now - self.began)
        self._audit()
        result = self.result
        result.records = [self.records[job.id] for job in self.trace.jobs]
        ends = [record.ended_s for record in result.records if record.ended_s is not None]
        first = self.began or min((job.submitted_s for job in self.trace.jobs), default=0.0)
        result.makespan_s = max(ends, default=first) - first
        result.unfinished = sum(record.ended_s is None for record in result.records)
        result.timeline = self.clocks.timeline
        if self.began:
            result.count_from(self.began)
        result.wall_s = perf_counter() - started
        result.peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return result

    @property
    def undecided(self) -> bool:
        """True if something has changed since the last decision."""
        return self.changed or bool(self.state.due)

    def _is_stuck(self) -> bool:
        """True if the policy goes on deciding, in rounds, about jobs that it can never place."""
        return self.idle >= _IDLE and all(what == _WAKE for _, what, _, _ in self.events)

    def _await_arrivals(self) -> None:
        """Begin with an empty cluster, at which the jobs of the trace arrive."""
        options = self.options
        hopeless = options.retries * options.retries_hopeless
        arrivals = arrivals_of(self.trace, options.screening, self.records, retries=options.retries, hopeless=hopeless)
        self.ended = len(self.jobs) - len(arrivals)
        self.events += ((at, _ARRIVE, job_id, 0) for job_id, at in arrivals.items())
        heapq.heapify(self.events)
        self.state.due = set()

    def _go_on(self, start: Start) -> None:
        """Go on from a snapshot: nothing that its first decision reads is changed.

        A job that stops for another one is queued again after its grace period; any other stopping job has ended then.
        """
        world, now = self.world, self.world.now
        for run in world.running:
            self._note_place(run, self.executions.setdefault(run.job.id, Execution(start.done[run.job.id], since=now)))
            self.clocks.active(run.job.vc_id, 1)
        for job in world.waiting:
            self.executions[job.id] = Execution(start.done[job.id])
            self.clocks.active(job.vc_id, 1)
            if job.eligible_at > now:
                self.backing_off[job.id] = job
                heapq.heappush(self.events, (job.eligible_at, _RETRY, job.id, 0))
                continue
            self.clocks.enter(job)
            self.classes.enter(job)
            self._schedule_wake(job.id)
        for run in world.running:
            job, execution = run.job, self.executions[run.job.id]
            self.records[job.id].started_s = run.placed_at
            self.attempts = max(self.attempts, run.attempt_id)
            execution.useful_gpu_s = run.gpus * (now - run.placed_at)
            execution.speed = 1.0 if run.rate is None else run.rate
            if run.stopping:
                execution.since = math.inf
                others = tuple(_without(share, world.reserved_gpus) for share in run.allocations)
                if others != run.allocations:
                    self.stopping_shares[job.id] = others
                what = _END if others == run.allocations else _RELEASE
                heapq.heappush(self.events, (now + job.grace_s, what, job.id, 0))
                continue
            self.speeds.interfered_by(run, 1)
            self.forecast.started(run)
            if job.speeds and job.remaining_s is not None:
                self.elastic.add(job.id)
            left_s = self.jobs[job.id].work.seconds_left(
                execution.done, execution.gpu_type, execution.layout, execution.speed
            )
            self._end_in(run, left_s)
        heapq.heappush(self.events, (now, _WAKE, _POOL, self.wishes))

    def _next_decision(self) -> float:
        """The next decision: at the next event, or at the end of the round that contains it."""
        moment, round_s = self.events[0][0], self.options.round_s
        if round_s > 0:
            moment = math.ceil(moment / round_s) * round_s
        return max(moment, self.options.first_round_s)

    def process(self, moment: float) -> None:
        """Process the events up to and including this moment."""
        world, handlers = self.world, (self._end, self._release, self._arrive, self._retry, self._wake)
        while self.events and self.events[0][0] <= moment:
            at, what, job_id, version = heapq.heappop(self.events)
            world.now = max(world.now, at)
            handlers[what](job_id, version)
            self.result.events += 1
            if self.result.events % self.options.audit_every == 0:
                self._audit()
        world.now = moment

    # Events

    def _arrive(self, job_id: int, _version: int) -> None:
        traced = self.jobs[job_id]
        job = scheduled_job(
            traced,
            vc_id=self.world.vc_ids[traced.vc],
            owner_id=self.owners[traced.owner],
            group_id=self.groups.of(job_id),
            gpu_types=self.state.capacity.types,
            expected_s=self.forecast.submitted(traced),
            measured=self.trace.throughputs is not None,
            options=self.options,
        )
        job = self.forecast.told(job)
        denials = [self.state.capacity.infeasible(demand) for demand in self._demands(job)]
        if None not in denials:
            if not self.options.skip_infeasible:
                reason = "; ".join(denial.detail for denial in denials if denial is not None)
                raise TraceError(f"job {job_id} ({self.jobs[job_id].name}): {reason}")
            self.records[job_id].outcome = "infeasible"
            return
        self.executions[job_id] = Execution()
        self.clocks.active(job.vc_id, 1)
        self.groups.enter(job)
        self.records[job_id].contention = -self.clocks.job_seconds()
        self.records[job_id].vc_contention = -self.clocks.job_seconds(job.vc_id)
        self._wait(job)

    def _end(self, job_id: int, version: int) -> None:
        execution = self.executions.get(job_id)
        if execution is None or execution.version != version:
            return
        run = self.world.running_by_job[job_id]
        self._free_gpus(run)
        self.state.free.give(run.allocations)
        self.state.ledger.give(run.job, run.allocations)
        self.clocks.touch(run.job.vc_id)
        self.changed = True
        record, now = self.records[job_id], self.world.now
        if self._handle_failure(run):
            return
        record.ended_s = float(round(now)) if self.options.whole_ends else now
        self.clocks.active(run.job.vc_id, -1)
        self.groups.leave(run.job, record.service_gpu_s)
        stayed_s = now - record.submitted_s
        record.contention += self.clocks.job_seconds()
        record.vc_contention += self.clocks.job_seconds(run.job.vc_id)
        record.contention = record.contention / stayed_s if stayed_s > 0 else 1.0
        record.vc_contention = record.vc_contention / stayed_s if stayed_s > 0 else 1.0
        del self.executions[job_id]
        self.ended += 1
        took_s = run.ran_s(now) if run.job.checkpoints else now - run.placed_at
        waiting = self.world.waiting_by_id
        for other_id in self.forecast.ended(self.jobs[job_id], took_s, now, waiting):
            waiting[other_id] = self.forecast.told(waiting[other_id])
            self.state.add_waiting(waiting[other_id])

    def _handle_failure(self, run: Running) -> bool:
        """Record a failed attempt; returns whether the job restarts from the beginning."""
        traced, record, execution = self.jobs[run.job.id], self.records[run.job.id], self.executions[run.job.id]
        if not traced.failure or self.options.failures is Failures.NONE:
            return False
        hopeless = traced.failure == FailureClass.HOPELESS
        if not hopeless and record.attempts > 1:
            record.outcome = SUCCEEDED
            return False
        record.failed_gpu_s += execution.useful_gpu_s
        execution.done = execution.useful_gpu_s = 0.0
        record.outcome = FAILED
        if record.attempts > self.options.retries or (hopeless and not self.options.retries_hopeless):
            return False
        record.attempts += 1
        self.backing_off[run.job.id] = self._requeued(run)
        at = self.world.now + self.options.retry_after_s
        heapq.heappush(self.events, (at, _RETRY, run.job.id, execution.version))
        return True

    def _retry(self, job_id: int, _version: int) -> None:
        """Queue a failed job for its next attempt."""
        job = self.backing_off.pop(job_id)
        self.records[job_id].not_eligible_delay_s += self.world.now - max(self.began, job.requeued_at)
        self._wait(replace(job, requeued_at=self.world.now))

    def _release(self, job_id: int, version: int) -> None:
        """A preempted job has saved its state: free its GPUs for the jobs that reserved them."""
        if self.executions[job_id].version == version:
            run = self.world.running_by_job[job_id]
            self._free_gpus(run)
            self.state.free.give(self.stopping_shares.pop(job_id))
            self.state.ledger.give(run.job, run.allocations)
            self._wait(self._requeued(run))

    def _wake(self, job_id: int, version: int) -> None:
        execution = self.executions.get(job_id)
        if job_id == _POOL:
            self.changed |= version == self.wishes and bool(self.executions)
        elif execution is not None and execution.version == version and self.state.due is not None:
            self.state.due.add(job_id)

    # Decisions

    def decide(self) -> None:
        """Decide on the present state, and carry the plan out."""
        self.changed = False
        due = self.state.due or set()
        self._measure()
        self.world.age()
        for before, job in self.classes.update():
            self.clocks.leave(before, self.records[job.id])
            self.clocks.enter(job)
        plan = decide_on(self.state, self.profile, max_places=self.options.config.max_places, explain=False)
        self.result.decisions += 1
        self.idle = 0 if plan.places or self.world.running_by_job else self.idle + 1
        violations = check(self.world, plan, self._checked())
        if violations:
            raise SimulationError(f"at {self.world.now:g}s the plan breaks an invariant: {violations[0].message}")
        self._apply(plan)
        self.state.due = set()
        due |= {note.job_id for note in plan.notes}
        for job_id in due - {place.job_id for place in plan.places} - {one.job_id for one in plan.preempts}:
            self._schedule_wake(job_id)
        self.clocks.sample(len(self.world.holders_of_gpu))

    def _measure(self) -> None:
        """Correct what is told of jobs that outlived predictions, have new rates, or are elastic (epochs differ)."""
        for run in self.forecast.corrected(self.world):
            self.world.running_by_job[run.job.id] = run
            self.state.add_running(run)
        for job_id in sorted(self.changing.keys() & self.world.running_by_job.keys()):
            run = self.world.running_by_job[job_id]
            self._accrue_progress(run)
            job = with_rates(run.job, self.changing[job_id].rates_at(self.executions[job_id].done), self.options)
            if job is not run.job:
                self.world.running_by_job[job_id] = told = replace(run, job=job)
                self.state.add_running(told)
        if self.options.oracle is not Oracle.PERFECT:
            return
        for job_id in sorted(self.elastic):
            run = self.world.running_by_job[job_id]
            self._accrue_progress(run)
            left_s = self.jobs[job_id].work.remaining_s(self.executions[job_id].done)
            since_placed_s = self.world.now - run.placed_at
            corrected_s = left_s + since_placed_s * run.job.speed_on(run.gpus)
            run = replace(run, job=replace(run.job, remaining_s=corrected_s))
            self.world.running_by_job[job_id] = run
            self.state.add_running(run)

    def _apply(self, plan: Plan) -> None:
        self.world.pool_state = plan.pool_state or self.world.pool_state
        self.wishes += 1
        if plan.wake_at is not None:
            heapq.heappush(self.events, (plan.wake_at, _WAKE, _POOL, self.wishes))
        for note in plan.notes:
            self.world.note(note.job_id, note.policy_state)
            self._schedule_wake(note.job_id)
        placed = {place.job_id: place for place in plan.places}
        moving: dict[int, Job] = {}
        over = placed.keys() | set(plan.drops)
        kept = {one.job_id: one for one in self.world.reservations if one.job_id not in over}
        # Without a grace period, preempted jobs are gone before any job starts.
        waits = (
            awaits_preemption(self.world, plan, self.profile.admission) if self.options.grace_s else frozenset[int]()
        )
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
            self._free_gpus(run)
            job = self._requeued(run)
            if job.id in placed:
                moving[job.id] = job
            else:
                self._wait(job)
        for place in plan.places:
            if place.job_id in waits:
                until = self.world.now + RESERVATION_S
                kept[place.job_id] = Reservation(place.job_id, place.allocations, until, given=place.given)
                self.state.remove_waiting(place.job_id)
                continue
            job = moving.get(place.job_id) or self.world.waiting_by_id[place.job_id]
            if place.job_id not in moving:
                self.clocks.leave(job, self.records[job.id])
                self.state.remove_waiting(job.id)
            self._start(job, place)
        if kept or self.world.reservations:
            self.world.reserve(kept.values())

    def _start(self, job: Job, place: Place) -> None:
        world, options = self.world, self.options
        self.attempts += 1
        self._count_busy_time()
        run = world.start(job, place, self.attempts)
        self.state.add_running(run)
        self.forecast.started(run)
        if job.speeds:
            self.elastic.add(job.id)
        self.clocks.touch(job.vc_id)
        record, execution = self.records[job.id], self.executions[job.id]
        restart_s = options.restart_s
        if record.started_s is None:
            record.started_s = world.now
            restart_s = options.restart_s if options.first_start_s is None else options.first_start_s
        execution.since = world.now + restart_s
        self._note_place(run, execution)
        neighbours = self.speeds.changed_by(run, 1)
        self._schedule_end(run)
        for neighbour in neighbours:
            self._schedule_end(world.running_by_job[neighbour])
        self._schedule_wake(job.id)

    def _note_place(self, run: Running, execution: Execution) -> None:
        first = self.world.gpu_by_id.get(run.allocations[0].gpu_ids[0]) if run.gpus else None
        execution.gpu_type = "" if first is None else first.type
        execution.layout = tuple(len(share.gpu_ids) for share in run.allocations)

    def _begin_stop(self, run: Running, promised: set[int]) -> None:
        """Stop the job's progress; it holds its GPUs until its grace period ends. `promised` GPUs are reserved for
        others."""
        self._accrue_progress(run)
        execution = self.executions[run.job.id]
        execution.version += 1
        execution.since = math.inf
        self.state.remove_running(run.job.id)
        self.elastic.discard(run.job.id)
        stopping = replace(run, state=AttemptState.STOPPING)
        self.world.running_by_job[run.job.id] = stopping
        self.state.add_running(stopping)
        at = self.world.now + self.options.grace_s
        heapq.heappush(self.events, (at, _RELEASE, run.job.id, execution.version))
        # The decision counted all GPUs of the job as free. The ones not promised to a job are taken until the release.
        self.stopping_shares[run.job.id] = tuple(_without(share, promised) for share in run.allocations)
        self.state.free.take(self.stopping_shares[run.job.id])
        self.state.ledger.take(run.job, run.allocations)

    def _free_gpus(self, run: Running) -> None:
        """Free the GPUs of a job, and add their use to its record."""
        job_id, now = run.job.id, self.world.now
        self._accrue_progress(run)
        self._count_busy_time()
        self.executions[job_id].version += 1
        self.world.stop(run)
        self.classes.touch(run.job.vc_id)
        self.state.remove_running(job_id)
        self.elastic.discard(job_id)
        gpus, held_s, record = run.gpus, now - run.placed_at, self.records[job_id]
        if self.options.spans:
            self.result.spans.append(Span(job_id, tuple(_gpus(run.allocations)), run.placed_at, now))
        record.run_s += held_s
        record.service_gpu_s += gpus * held_s
        record.overhead_gpu_s = record.service_gpu_s - record.failed_gpu_s - self.executions[job_id].useful_gpu_s
        for neighbour in self.speeds.changed_by(run, -1):
            self._schedule_end(self.world.running_by_job[neighbour])

    def _count_busy_time(self) -> None:
        """Add the busy GPU-seconds since the last change of the set of running jobs."""
        self.result.busy_gpu_s += len(self.world.holders_of_gpu) * (self.world.now - self.busy_counted_until)
        self.busy_counted_until = self.world.now

    def _requeued(self, run: Running) -> Job:
        """The job as it waits again, with its attained service."""
        now, execution, traced = self.world.now, self.executions[run.job.id], self.jobs[run.job.id]
        if not traced.checkpoints:
            execution.done = execution.useful_gpu_s = 0.0
        return self.forecast.requeued(run, traced, execution.done, now)

    def _wait(self, job: Job) -> None:
        self.world.waiting_by_id[job.id] = job
        self.state.add_waiting(job)
        self.clocks.enter(job)
        self.classes.enter(job)
        self.changed = True
        self._schedule_wake(job.id)

    # Scheduled events

    def _accrue_progress(self, run: Running) -> None:
        """Add the work computed since the last call to the job's progress."""
        execution = self.executions[run.job.id]
        span_s = self.world.now - execution.since
        if span_s > 0:
            work = self.jobs[run.job.id].work
            execution.done = work.advance(execution.done, execution.gpu_type, execution.layout, execution.speed, span_s)
            execution.useful_gpu_s += span_s * sum(execution.layout)
            execution.since = self.world.now

    def _schedule_end(self, run: Running) -> None:
        """Schedule the end of the job at its current speed."""
        if run.stopping:
            return
        execution, job = self.executions[run.job.id], self.jobs[run.job.id]
        self._accrue_progress(run)
        rate = self.speeds.shared_rate(run)
        execution.speed = self.speeds.of(run, rate)
        per_s = self.speeds.measured(run)
        left_s = job.work.seconds_left(execution.done, execution.gpu_type, execution.layout, execution.speed)
        predicted = self.forecast.at_speed(run, job, execution.done, left_s, self.world.now)
        if predicted is not run or (rate, per_s) != (run.rate, run.speed):
            run = self.world.measure(predicted, rate, per_s)
            self.state.add_running(run)
        execution.version += 1
        if rate == 0.0:  # it gets no share of its GPUs until another job leaves them
            self._schedule_wake(run.job.id)
            return
        self._end_in(run, left_s)

    def _end_in(self, run: Running, left_s: float) -> None:
        """Schedule the end of the job after this time of progress."""
        execution, job = self.executions[run.job.id], self.jobs[run.job.id]
        if math.isinf(left_s):
            raise TraceError(
                f"job {job.id} ({job.name}) makes no progress: its work has no speed on {execution.gpu_type}"
            )
        heapq.heappush(
            self.events, (max(execution.since, self.world.now) + left_s, _END, run.job.id, execution.version)
        )
        self._schedule_wake(run.job.id)

    def _schedule_wake(self, job_id: int) -> None:
        """Schedule a decision for the moment at which the policy, or a relaxing locality, wants one."""
        run = self.world.running_by_job.get(job_id)
        job = run.job if run is not None else self.world.waiting_by_id.get(job_id)
        if job is None or (run is not None and run.stopping):
            return
        at = job_wake(self.profile.policy, self.profile.placement, job, run, self.world.now)
        if at is not None:
            heapq.heappush(self.events, (max(at, self.world.now), _WAKE, job_id, self.executions[job_id].version))

    # Consistency

    def _checked(self) -> Admission:
        """The admission that checks a plan; one that chooses GPUs counts the whole pool for it, and is asked seldom."""
        admission, number = self.profile.admission, self.result.decisions
        return Open() if admission.chooses_gpus and number % _CHECKED_EVERY else admission

    def _audit(self) -> None:
        """Raise a `SimulationError` unless the state follows from the world."""
        mistake = next(mistakes(self.world, self.state), None)
        if mistake is not None:
            raise SimulationError(f"at {self.world.now:g}s {mistake}")

    def _demands(self, job: Job) -> list[Demand]:
        choices = job.request.choices_among(self.state.capacity.types)
        return [demand_of(job.request, choice) for choice in choices]


def _without(share: AllocationView, gpu_ids: Collection[int]) -> AllocationView:
    return replace(share, gpu_ids=tuple(gpu_id for gpu_id in share.gpu_ids if gpu_id not in gpu_ids))


def _gpus(allocations: Iterable[AllocationView]) -> Iterable[int]:
    return (gpu_id for share in allocations for gpu_id in share.gpu_ids)
