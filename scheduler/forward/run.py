"""Runs the policy of a pool forward from a snapshot, in the simulator, once for each draw of the jobs' run times.

1. Run times are drawn; nothing arrives, and the scheduler learns nothing but that jobs outlive what is expected.
2. A draw decides at the pace of `scheduler.forward.pace`.
3. It ends when each job and each probe has started, at the horizon, or when its share of the time is used up. All draws
   count as far as the first one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import process_time

from scheduler.engine.cycle import CycleConfig, places_in_trial
from scheduler.engine.policy import PreemptivePolicy
from scheduler.forward.answer import Forward, Kind, starts_of
from scheduler.forward.draws import drawn_left_s, spread_of
from scheduler.forward.known import Known
from scheduler.forward.pace import COARSE, Pace
from scheduler.forward.probes import probes_of
from scheduler.model import Job, Running, Snapshot
from scheduler.placement.demand import Demand, demand_of
from scheduler.sim.engine import Simulation
from scheduler.sim.options import Options, Oracle
from scheduler.sim.start import Start, start_of

DRAWS = 16
HORIZON_S = 14 * 86_400.0
MIN_DRAWS = 4  # among which the time budget is shared out
# Questions about probes: at the beginning of a draw, and one more for each decision.
_FIRST_QUESTIONS, _QUESTIONS = 8.0, 0.5


def run_forward(
    snapshot: Snapshot,
    config: CycleConfig,
    *,
    seed: int = 0,
    draws: int = DRAWS,
    horizon_s: float = HORIZON_S,
    budget_s: float = math.inf,
    coarse: float = COARSE,
    probes: Sequence[tuple[Kind, Job]] | None = None,
    clock: Callable[[], float] = process_time,
) -> Forward:
    """The starts of the waiting jobs and of the probes, by default those of `probes_of`.

    The same arguments give the same answer as long as the time budget is not used up: then there are fewer draws, and
    they end sooner. The first draw may take a quarter of the budget.
    """
    began = clock()
    probes = probes_of(snapshot) if probes is None else probes
    jobs: list[tuple[Job, Running | None]] = [(job, None) for job in snapshot.waiting]
    jobs += [(run.job, run) for run in snapshot.running]
    spreads = [spread_of(job, run, snapshot.now) for job, run in jobs]
    left_s = drawn_left_s(spreads, draws, seed)
    gpus = sum(len(node.gpus) for node in snapshot.nodes)
    found: list[Mapping[int, float]] = []
    for number in range(draws):
        work = {
            job.id: (spread.done_s + left, spread.done_s)
            for (job, _), spread, left in zip(jobs, spreads, left_s[:, number].tolist(), strict=True)
        }
        over_at = began + budget_s * min(1.0, (number + 1) / MIN_DRAWS)
        pace = Pace(gpus=gpus, horizon_s=horizon_s, coarse=coarse, clock=clock, over_at=over_at)
        start = start_of(snapshot, config, "forward", work_of=partial(_work, work))
        draw = _Draw(start, [job for _, job in probes], pace)
        draw.run(horizon_s)
        if found and draw.came_s < horizon_s / 2:
            break  # it has come far less than the others
        found.append(draw.starts_s())
        horizon_s = min(horizon_s, draw.came_s)
        if clock() - began + (clock() - began) / len(found) > budget_s:
            break  # another one would not come as far
    return _summary(snapshot, found, probes, horizon_s, clock() - began)


def _work(work: Mapping[int, tuple[float, float]], job: Job, _: Running | None) -> tuple[float, float]:
    return work[job.id]


class _Draw:
    """One draw: the starts of the jobs that wait now, and of the probes, s after the snapshot."""

    def __init__(self, start: Start, probes: Sequence[Job], pace: Pace) -> None:
        snapshot, config = start.snapshot, start.config
        options = replace(Options.of(config, config.policy), oracle=Oracle.NONE, audit_every=1 << 62)
        self._sim = Simulation(start.trace, start.cluster, options, start, Known())
        self._waiting = [self._sim.records[job.id] for job in snapshot.waiting]
        self._began, self._pace = snapshot.now, pace
        self._gpus_each = sum(job.request.gpus_total for job in snapshot.waiting) / max(1, len(snapshot.waiting))
        self._probes = _Probes(self._sim, probes)
        self.came_s = 0.0

    def run(self, horizon_s: float) -> None:
        """Go on until all have started, nothing more happens, the horizon is reached, or the time is used up."""
        sim, began, since_s, held = self._sim, self._began, math.inf, len(self._sim.world.holders_of_gpu)
        while sim.events and sim.events[0][0] <= began + horizon_s:
            at = sim.events[0][0]
            self.came_s = at - began
            if self._pace.is_over:
                return
            sim.process(at)
            if not sim.undecided:
                continue
            since_s = min(since_s, self.came_s)
            if sim.events and self._pace.waits(
                self.came_s,
                next_s=sim.events[0][0] - began,
                since_s=since_s,
                freed=held - len(sim.world.holders_of_gpu),
                wanted=len(sim.world.waiting_by_id) * self._gpus_each,
            ):
                continue
            with self._pace.decision():
                self._probes.ask()
                sim.decide()
            since_s, held = math.inf, len(sim.world.holders_of_gpu)
            if not self._probes.left and all(record.started_s is not None for record in self._waiting):
                break
        self.came_s = horizon_s

    def starts_s(self) -> Mapping[int, float]:
        """The starts of the waiting jobs and of the probes, s after the snapshot; without those that did not start."""
        began = self._began
        waiting = {one.id: one.started_s - began for one in self._waiting if one.started_s is not None}
        return waiting | self._probes.starts_s


class _Probes:
    """The probes of a draw that have not started.

    Those that may fit are asked about together, and again without those that start, until none does: smaller ones go
    first, so that a large one takes nothing from them. A question costs a decision. So there is one for every other
    decision, and a few more at the beginning; and a probe that does not start is asked about again when a fiftieth of
    the time has passed.
    """

    def __init__(self, sim: Simulation, jobs: Sequence[Job]) -> None:
        self._sim, self._began = sim, sim.world.now
        types, capacity = sim.state.capacity.types, sim.state.capacity
        demands = {
            job.id: [demand_of(job.request, choice) for choice in job.request.choices_among(types)] for job in jobs
        }
        possible = {key: [one for one in those if capacity.infeasible(one) is None] for key, those in demands.items()}
        self.left = {job.id: (job, possible[job.id]) for job in jobs if possible[job.id]}
        self.starts_s: dict[int, float] = {}
        self._questions, self._ask_at = _FIRST_QUESTIONS, dict.fromkeys(self.left, 0.0)
        policy, admission = sim.profile.policy, sim.profile.admission
        preempts = isinstance(policy, PreemptivePolicy) and policy.preemptive
        self._needs_free = not (preempts or admission.reclaims or admission.chooses_gpus)

    def ask(self) -> None:
        """Note the probes that the next decision would start."""
        passed_s = self._sim.world.now - self._began
        self._questions += _QUESTIONS
        asked = {
            job_id: job
            for job_id, (job, demands) in self.left.items()
            if self._ask_at[job_id] <= passed_s and (not self._needs_free or any(map(self._may_fit, demands)))
        }
        while asked and self._questions >= 1:
            self._questions -= 1
            started = self._that_start(asked)
            for job_id in started:
                self.starts_s[job_id] = passed_s
                del self.left[job_id], asked[job_id]
            if not started:
                self._ask_at |= dict.fromkeys(asked, passed_s * (1 + COARSE))
                return

    def _may_fit(self, demand: Demand) -> bool:
        return demand.gpu_type is None or self._sim.state.free.gpus(demand.gpu_type) >= demand.gpus_total

    def _that_start(self, asked: Mapping[int, Job]) -> Collection[int]:
        world, state = self._sim.world, self._sim.state
        for job_id, job in asked.items():
            world.waiting_by_id[job_id] = job
            state.add_waiting(job)
        try:
            limit = self._sim.options.config.max_places
            return asked.keys() & places_in_trial(state, self._sim.profile, max_places=limit)
        finally:
            for job_id in asked:
                del world.waiting_by_id[job_id]
                state.remove_waiting(job_id)


def _summary(
    snapshot: Snapshot,
    found: Sequence[Mapping[int, float]],
    probes: Sequence[tuple[Kind, Job]],
    horizon_s: float,
    took_s: float,
) -> Forward:
    def of(job_id: int) -> list[float]:
        starts = [starts_s.get(job_id, math.inf) for starts_s in found]
        return [at if at <= horizon_s else math.inf for at in starts]

    jobs = {job.id: starts_of(of(job.id), snapshot.now - job.waiting_since) for job in snapshot.waiting}
    return Forward(
        at=snapshot.now,
        horizon_s=horizon_s,
        draws=len(found),
        took_s=took_s,
        reached=sum(one.p50_s < math.inf for one in jobs.values()) / len(jobs) if jobs else 1.0,
        jobs=jobs,
        probes={kind: starts_of(of(job.id)) for kind, job in probes},
    )
