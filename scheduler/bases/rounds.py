"""Rounds: shares of time by job and GPU type become leases of whole GPUs for one round.

Source: Narayanan et al., Gavel (OSDI 2020), §5, and its artifact. The priority of a job on a type is its share divided
by the time that it received there since the last reset, so that over many rounds each job receives its shares.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any
from zlib import crc32

from scheduler.bases.assignment import assign
from scheduler.engine.configs import PolicyError, config_of, configs_of, preferred
from scheduler.engine.context import CycleContext, backoff_reason
from scheduler.model import Job, Running
from scheduler.model.request import Config

Unit = tuple[int, ...]
"""The holder of a lease: the id of one job, or the ids of two that share their GPUs."""

Inputs = tuple[frozenset[int], Mapping[str, int], int]

Shares = (
    Mapping[int, Mapping[str, float]] | Mapping[Unit, Mapping[str, float]] | Mapping[int | Unit, Mapping[str, float]]
)
"""The share of time, 0 to 1, of each job or pair by GPU type; all shares of a job add up to at most 1."""

SOON_S = 1e-6
_ROUNDING = 1e-6

# A smaller share is no claim. It orders the jobs that take idle GPUs: an interior point of the optimal shares gives
# more to a job that only just gets none.
MIN_SHARE = 1e-6


class IdleGpus(StrEnum):
    """The jobs that may take GPUs that no share claims."""

    ALL = "all"  # any job, at any moment
    SOLVED = "solved"  # at the end of a round, jobs that the last solve knew
    NONE = "none"  # jobs with a share of that type only


@dataclass(slots=True)
class Account:
    """Time promised to one job or pair, and time received since the last reset, by GPU type.

    `deficit_s` is the time that it was promised and did not receive before the last reset.
    """

    shares: dict[str, float] = field(default_factory=dict)
    received_s: dict[str, float] = field(default_factory=dict)
    deficit_s: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Solve:
    """The method that computed the shares: the jobs, and the rows and random parts in which they were solved.

    `lost` is the share of the optimum that these lose at most; None: nothing, or no bound is known.
    """

    jobs: int
    rows: int
    parts: int
    lost: float | None = None


@dataclass(slots=True)
class Ledger:
    """The accounts of the jobs, and the round.

    `inputs` is what the shares were computed for: the ids of the jobs, the GPUs in service by type, and a checksum of
    which rates were known from which source. Rates that only move a little are no reason for another solve.
    """

    ends_at: float = -math.inf  # of the round
    at: float = 0.0  # of the last account
    reset_at: float | None = None  # of the last reset, which is that of the last solve; None: none yet
    rounds: int = 0
    inputs: Inputs = (frozenset(), {}, 0)
    types: list[str] = field(default_factory=list)  # in the order in which they are given out
    accounts: dict[Unit, Account] = field(default_factory=dict)
    solve: Solve | None = None  # the last one; None: the policy does not tell

    @classmethod
    def read(cls, state: Mapping[str, Any] | None) -> Ledger:
        """The ledger that `to_state` made the state from; an empty one without a state."""
        if state is None:
            return cls()
        types = state["types"]
        accounts = {
            tuple(map(int, key.split("+"))): Account(*(_without_zeros(types, row) for row in rows))
            for key, rows in state["accounts"].items()
        }
        inputs = (frozenset(state["jobs"]), dict(state["supply"]), state.get("known", 0))
        ledger = cls(state["ends_at"], state["at"], state["reset_at"], state["rounds"], inputs, list(types), accounts)
        ledger.solve = Solve(**state["solve"]) if state.get("solve") else None  # a state of before has none
        return ledger

    def to_state(self) -> Mapping[str, Any]:
        """The ledger as JSON values, in few digits, so that a pool can remember ten thousand jobs on four types."""
        jobs, supply, known = self.inputs
        accounts = {
            "+".join(map(str, unit)): [
                [_significant(account.shares.get(kind, 0.0)) for kind in self.types],
                [round(account.received_s.get(kind, 0.0), 1) for kind in self.types] if account.received_s else [],
                [round(account.deficit_s.get(kind, 0.0)) for kind in self.types] if account.deficit_s else [],
            ]
            for unit, account in self.accounts.items()
        }
        return {
            "ends_at": self.ends_at,
            "at": self.at,
            "reset_at": self.reset_at,
            "rounds": self.rounds,
            "jobs": sorted(jobs),
            "supply": dict(supply),
            "known": known,
            "types": self.types,
            "accounts": accounts,
            "solve": self.solve and asdict(self.solve),
        }

    def account(self, context: CycleContext) -> None:
        """Add the time that running jobs received since the last account, and forget jobs that are gone."""
        view, now = context.view, context.now
        present = view.waiting_by_id.keys() | view.running_by_job.keys()
        self.accounts = {unit: account for unit, account in self.accounts.items() if present.issuperset(unit)}
        for unit in {unit_of(context, run) for run in view.running}:
            account = self.accounts.get(unit)
            if account is None:
                continue
            runs = [view.running_by_job[job_id] for job_id in unit]
            held = config_of(context, runs[0]).gpu_type
            if held is not None:
                span_s = now - max(self.at, *(run.placed_at for run in runs))
                account.received_s[held] = account.received_s.get(held, 0.0) + span_s
        self.at = now

    def reset(self, now: float, shares: Mapping[Unit, Mapping[str, float]], inputs: Inputs) -> None:
        """Settle what was owed and received in the deficits, and begin to count again with other shares."""
        span_s = 0.0 if self.reset_at is None else now - self.reset_at
        before, self.accounts = self.accounts, {}
        for unit in sorted({(job_id,) for job_id in inputs[0]} | shares.keys()):
            old = before.get(unit, Account())
            deficit_s = dict(old.deficit_s)
            for kind in old.shares.keys() | old.received_s.keys():
                owed_s = old.shares.get(kind, 0.0) * span_s - old.received_s.get(kind, 0.0)
                deficit_s[kind] = deficit_s.get(kind, 0.0) + owed_s
            self.accounts[unit] = Account(dict(shares.get(unit, {})), {}, deficit_s)
        self.reset_at, self.inputs = now, inputs

    def claim(self, unit: Unit, gpu_type: str, round_s: float) -> tuple[float, float, float]:
        """The priority, deficit and share of the job or pair on the type: larger goes first.

        Half a round counts as received already, so that a new job's priority is finite.
        """
        account = self.accounts.get(unit)
        if account is None:
            return 0.0, 0.0, 0.0
        share = account.shares.get(gpu_type, 0.0)
        priority = share / (account.received_s.get(gpu_type, 0.0) + round_s / 2)
        return priority, account.deficit_s.get(gpu_type, 0.0), share


def inputs_of(context: CycleContext, candidates: Mapping[int, Job]) -> Inputs:
    """The input of the candidates' shares; see `Ledger`."""
    known = [(job_id, [(one.gpu_type, one.rate.source) for one in job.rates]) for job_id, job in candidates.items()]
    return frozenset(candidates), dict(+context.state.capacity.gpus_in_service), crc32(repr(known).encode())


def unit_of(context: CycleContext, run: Running) -> Unit:
    """The ids of the job and of the job that shares its GPUs, if any, ascending."""
    first = next((share.gpu_ids[0] for share in run.allocations if share.gpu_ids), None)
    holders = () if first is None else context.view.holders_of_gpu.get(first, ())
    return tuple(sorted({run.job.id, *holders})) if len(holders) > 1 else (run.job.id,)


def checked(context: CycleContext, shares: Shares) -> Mapping[Unit, Mapping[str, float]]:
    """The shares above 0 by unit.

    Raises:
        PolicyError: a job is unknown, or its shares are no numbers from 0 to 1 that add up to at most 1.
    """
    view, types = context.view, set(context.state.capacity.types)
    time: defaultdict[int, float] = defaultdict(float)
    found: dict[Unit, Mapping[str, float]] = {}
    for key, by_type in shares.items():
        unit: Unit = (key,) if isinstance(key, int) else tuple(sorted(key))
        words = "job " + " and ".join(map(str, unit))
        if len(set(unit)) != len(unit) or len(unit) not in (1, 2):
            raise PolicyError(f"the shares name {key}, which is neither a job nor a pair")
        for job_id in unit:
            if job_id not in view.waiting_by_id and job_id not in view.running_by_job:
                raise PolicyError(f"the shares name job {job_id}, which is not in this pool")
            time[job_id] += sum(by_type.values())
        for gpu_type, share in by_type.items():
            if gpu_type not in types:
                raise PolicyError(f"the shares of {words} name {gpu_type}; the pool has {', '.join(sorted(types))}")
            if not math.isfinite(share) or not -_ROUNDING <= share <= 1 + _ROUNDING:
                raise PolicyError(f"the share of {words} of {gpu_type} is {share}, not from 0 to 1")
        found[unit] = {kind: share for kind, share in sorted(by_type.items()) if share > 0}
    for job_id, total in time.items():
        if total > 1 + _ROUNDING:
            raise PolicyError(f"the shares of job {job_id} add up to {total:g}, which is more than 1")
    return {unit: by_type for unit, by_type in found.items() if by_type or len(unit) == 1}


def start_round(
    context: CycleContext, ledger: Ledger, candidates: Mapping[int, Job], round_s: float, idle: IdleGpus
) -> None:
    """Give out the GPUs for the next round to the candidates.

    1. Type by type, jobs and pairs get GPUs in the order of their claims while GPUs of the type are left. Jobs without
       a share come last, those that run before those that wait.
    2. A job whose GPUs and neighbour do not change keeps them: its lease is extended.
    """
    left = Counter({kind: context.state.free.gpus(kind) for kind in context.state.capacity.types})
    held: dict[int, Config] = {}
    for unit in {unit_of(context, run) for run in context.view.running if run.job.id in candidates and run.gpus}:
        config = config_of(context, context.view.running_by_job[unit[0]])
        held |= dict.fromkeys(candidates.keys() & set(unit), config)
        left[config.gpu_type or ""] += config.gpus if candidates.keys() >= set(unit) else 0
    choices = {job_id: preferred(configs_of(context, job)) for job_id, job in candidates.items()}
    chosen: dict[int, Config] = {}
    beside: dict[int, int] = {}
    units: list[Unit] = [(job_id,) for job_id in candidates]
    units += [unit for unit in ledger.accounts if len(unit) > 1 and candidates.keys() >= set(unit)]
    for kind in ledger.types:
        ranked = [(ledger.claim(unit, kind, round_s), unit) for unit in units if chosen.keys().isdisjoint(unit)]
        ranked.sort(key=lambda entry: (*(-value for value in entry[0]), entry[1][0] not in held, entry[1]))
        for (_, _, share), unit in ranked:
            config_of_unit = choices[unit[0]].get(kind)
            if config_of_unit is None or config_of_unit.gpus > left[kind] or not chosen.keys().isdisjoint(unit):
                continue
            may_fill = len(unit) == 1 and (
                idle is IdleGpus.ALL or (idle is IdleGpus.SOLVED and unit in ledger.accounts)
            )
            if share > MIN_SHARE or may_fill:
                left[kind] -= config_of_unit.gpus
                chosen |= dict.fromkeys(unit, config_of_unit)
                if len(unit) == 2:
                    beside[unit[1]] = unit[0]
    wanted = {job_id: chosen.get(job_id) for job_id in candidates if job_id in held or job_id in chosen}
    assign(context, wanted, atomic=False, beside=beside)
    for job_id in held.keys() - chosen.keys():
        run = context.view.running_by_job[job_id]
        if context.can_stay(run):  # quota kept its GPUs from the others
            context.keep(run)
    fill(context, ledger, candidates, round_s, idle)


def fill(context: CycleContext, ledger: Ledger, candidates: Mapping[int, Job], round_s: float, idle: IdleGpus) -> None:
    """Start waiting candidates on idle GPUs if `idle` lets all have them, in the order of their highest claims.

    Jobs without GPUs start at once in any case.
    """
    waiting = [
        job
        for job_id, job in candidates.items()
        if job_id not in context.view.running_by_job
        and job_id not in context.places
        and (idle is IdleGpus.ALL or not job.request.needs_gpus)
    ]
    types = context.state.capacity.types

    def claims(job: Job) -> Mapping[str, tuple[float, float, float]]:
        return {kind: ledger.claim((job.id,), kind, round_s) for kind in types}

    def highest(job: Job) -> tuple[float, ...]:
        return tuple(-value for value in max(claims(job).values(), default=(0.0,)))

    for job in sorted(waiting, key=lambda job: (highest(job), job.submitted_at, job.id)):
        by_type, (admitted, _) = claims(job), context.admissible(job)
        context.place(job, sorted(admitted, key=lambda demand: -by_type.get(demand.gpu_type or "", (0.0,))[0]))


def candidates_of(context: CycleContext) -> Mapping[int, Job]:
    """The jobs that may start, and the running jobs that may stop, by id."""
    running = {run.job.id: run.job for run in context.view.running if run.job.preemptible and context.stays(run)}
    waiting = {
        job.id: job
        for job in context.view.waiting
        if job.id not in context.reserved and job.id not in context.places and backoff_reason(job, context.now) is None
    }
    return dict(sorted((running | waiting).items()))


def _without_zeros(types: Sequence[str], row: Sequence[float]) -> dict[str, float]:
    """The values by type; an empty row is one of zeros."""
    return {kind: value for kind, value in zip(types, row, strict=True) if value} if row else {}


def _significant(share: float) -> float:
    return float(f"{share:.5g}") if share > MIN_SHARE else float(f"{share:.2g}")
