"""Rounds: shares of time by job and GPU type become leases of whole GPUs for one round.

Source: Narayanan et al., Gavel (OSDI 2020), §5: a job with a large share on a type gets it in more rounds. Here the
next round goes to the jobs that are owed the most time: their shares of the time so far, less what they received.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduler.bases.assignment import assign
from scheduler.engine.configs import PolicyError, config_of, configs_of
from scheduler.engine.context import CycleContext, backoff_reason
from scheduler.model import Job, Running
from scheduler.model.request import Config

Shares = Mapping[int, Mapping[str, float]]
"""The share of time, 0 to 1, of each job by GPU type; a job's shares add up to at most 1."""

SOON_S = 1e-6
_ROUNDING = 1e-6


@dataclass(slots=True)
class Ledger:
    """What each job is owed and has received, s by GPU type, since it joined."""

    ends_at: float = -math.inf  # of the round
    at: float = 0.0  # of the last account
    shares: dict[int, dict[str, float]] = field(default_factory=dict)
    owed_s: dict[int, dict[str, float]] = field(default_factory=dict)

    @classmethod
    def read(cls, state: Mapping[str, Any] | None) -> Ledger:
        """The ledger that `to_state` made the state from; an empty one without a state."""
        if state is None:
            return cls()
        shares, owed_s = ({int(key): dict(value) for key, value in state[name].items()} for name in ("shares", "owed"))
        return cls(float(state["ends_at"]), float(state["at"]), shares, owed_s)

    def to_state(self) -> Mapping[str, Any]:
        """The ledger as JSON values."""
        by_text = [{str(key): value for key, value in of.items()} for of in (self.shares, self.owed_s)]
        return {"ends_at": self.ends_at, "at": self.at, "shares": by_text[0], "owed": by_text[1]}

    def account(self, context: CycleContext) -> None:
        """Add what the shares promised since the last account, and subtract what running jobs received."""
        view, now = context.view, context.now
        present = {*view.waiting_by_id, *view.running_by_job}
        self.shares = {job_id: by_type for job_id, by_type in self.shares.items() if job_id in present}
        self.owed_s = {job_id: by_type for job_id, by_type in self.owed_s.items() if job_id in present}
        for job_id, by_type in self.shares.items():
            for gpu_type, share in by_type.items():
                self._add(job_id, gpu_type, share * (now - self.at))
        for run in view.running:
            held = config_of(context, run).gpu_type
            if held is not None:
                self._add(run.job.id, held, -(now - max(self.at, run.placed_at)) if self.shares else 0.0)
        self.at = now

    def max_owed_s(self, job_id: int) -> float:
        """The longest time that the job is owed on one type, s."""
        return max(self.owed_s.get(job_id, {}).values(), default=0.0)

    def _add(self, job_id: int, gpu_type: str, seconds: float) -> None:
        owed = self.owed_s.setdefault(job_id, {})
        owed[gpu_type] = owed.get(gpu_type, 0.0) + seconds


def checked(context: CycleContext, shares: Shares) -> dict[int, dict[str, float]]:
    """The shares, sorted by job and type.

    Raises:
        PolicyError: a job is unknown, or its shares are no numbers from 0 to 1 that add up to at most 1.
    """
    view, types = context.view, set(context.state.capacity.types)
    for job_id, by_type in shares.items():
        if job_id not in view.waiting_by_id and job_id not in view.running_by_job:
            raise PolicyError(f"the shares name job {job_id}, which is not in this pool")
        for gpu_type, share in by_type.items():
            if gpu_type not in types:
                raise PolicyError(
                    f"the shares of job {job_id} name {gpu_type}; the pool has {', '.join(sorted(types))}"
                )
            if not math.isfinite(share) or not -_ROUNDING <= share <= 1 + _ROUNDING:
                raise PolicyError(f"the share of job {job_id} of {gpu_type} is {share}, not from 0 to 1")
        if sum(by_type.values()) > 1 + _ROUNDING:
            raise PolicyError(f"the shares of job {job_id} add up to {sum(by_type.values()):g}, which is more than 1")
    return {
        job_id: {kind: max(0.0, share) for kind, share in sorted(by_type.items())}
        for job_id, by_type in sorted(shares.items())
    }


def start_round(context: CycleContext, ledger: Ledger, round_s: float) -> None:
    """Give out the GPUs for the next round.

    1. In the order of the time that they are owed at the end of the round, jobs get the types of their shares, while
       GPUs of the type are left.
    2. Jobs that run keep what they have, as far as GPUs are left: their leases are extended.
    3. The other jobs, in descending order of the time owed to them, get GPUs of any type that is still left.
    """
    candidates = _candidates(context)
    left = Counter({kind: context.state.free.gpus(kind) for kind in context.state.capacity.types})
    for run in candidates.values():
        if run is not None:
            left[config_of(context, run).gpu_type or ""] += run.gpus
    jobs = {job_id: _job(context, job_id) for job_id in candidates}
    choices = {job_id: _by_type(configs_of(context, job)) for job_id, job in jobs.items()}
    chosen: dict[int, Config | None] = {}

    def offer(job_id: int, config: Config | None) -> None:
        if job_id not in chosen and config is not None and left[config.gpu_type or ""] >= config.gpus:
            left[config.gpu_type or ""] -= config.gpus
            chosen[job_id] = config

    for _, _, job_id, gpu_type in sorted(_claims(ledger, round_s, jobs)):
        offer(job_id, choices[job_id].get(gpu_type))
    for job_id, run in candidates.items():
        if run is not None:
            offer(job_id, config_of(context, run))
    for job in _by_time_owed(ledger, jobs.values()):
        for config in choices[job.id].values():
            offer(job.id, config)
    wanted = {job_id: chosen.get(job_id) for job_id, run in candidates.items() if run is not None or job_id in chosen}
    assign(context, wanted, atomic=False)
    for job_id, run in candidates.items():
        if run is not None and job_id not in chosen and context.can_stay(run):  # quota kept its GPUs from the others
            context.keep(run)
    fill(context, ledger)


def fill(context: CycleContext, ledger: Ledger) -> None:
    """Start waiting jobs on free GPUs, in descending order of the time owed to them."""
    waiting = [_job(context, job_id) for job_id, run in _candidates(context).items() if run is None]
    for job in _by_time_owed(ledger, waiting):
        shares = ledger.shares.get(job.id, {})
        admitted, _ = context.admissible(job)
        context.place(job, sorted(admitted, key=lambda demand: -shares.get(demand.gpu_type or "", 0.0)))


def _candidates(context: CycleContext) -> dict[int, Running | None]:
    """The jobs that may start, and the running jobs that may stop, by id."""
    running = {run.job.id: run for run in context.view.running if run.job.preemptible and context.stays(run)}
    waiting = {
        job.id: None
        for job in context.view.waiting
        if job.id not in context.reserved and job.id not in context.places and backoff_reason(job, context.now) is None
    }
    return {job_id: {**running, **waiting}[job_id] for job_id in sorted({*running, *waiting})}


def _job(context: CycleContext, job_id: int) -> Job:
    run = context.view.running_by_job.get(job_id)
    return run.job if run is not None else context.view.waiting_by_id[job_id]


def _by_type(configs: Sequence[Config]) -> Mapping[str, Config]:
    """The preferred configuration of each type."""
    found: dict[str, Config] = {}
    for config in configs:
        found.setdefault(config.gpu_type or "", config)
    return found


def _claims(ledger: Ledger, round_s: float, jobs: Mapping[int, Job]) -> Iterable[tuple[float, float, int, str]]:
    """The claims with a share to the next round: the negated time that is owed, the submission, the job, the type."""
    for job_id, job in jobs.items():
        for gpu_type, share in ledger.shares.get(job_id, {}).items():
            if share > 0:
                owed_s = ledger.owed_s.get(job_id, {}).get(gpu_type, 0.0) + share * round_s
                yield -owed_s, job.submitted_at, job_id, gpu_type


def _by_time_owed(ledger: Ledger, jobs: Iterable[Job]) -> Sequence[Job]:
    return sorted(jobs, key=lambda job: (-ledger.max_owed_s(job.id), job.submitted_at, job.id))
