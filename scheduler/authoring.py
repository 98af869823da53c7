"""The authors' page: everything that a policy or an admission imports. docs/policies/writing.md shows how to use it.

A policy is a frozen dataclass whose fields are its parameters, each made by `param`, with one of these bases:

- `OrderedPolicy`: the policy is an order of jobs, with or without preemption;
- `RoundPolicy`: the policy is shares of time by job and GPU type, handed out as leases for a round;
- `AssignmentPolicy`: the policy chooses a configuration for each job;
- `CyclePolicy`: the policy says itself what happens in a cycle;
- `BasePolicy`: the policy serves the engine's own `CycleContext`; see `scheduler.workshop`.

A policy that decides by estimates names them in a property `needs`, a frozenset of `Need`; pages then tell how well a
pool knows them.

A policy decides through a `Cycle` and keeps nothing itself: the same function runs in production, in the simulator, in
a dry run and a replay. An error that it raises changes nothing: the pool falls back to simpler settings and names it.

An admission is an `Admission` whose `Ledger` answers what a virtual cluster may have.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from random import Random
from typing import Any, ClassVar, Literal

from scheduler.admission import ANY_GPUS, Admission, Grant, Ledger, LockScope
from scheduler.bases import assignment, rounds
from scheduler.bases.ordered import OrderedPolicy
from scheduler.bases.policy import BasePolicy
from scheduler.bases.rounds import IdleGpus, Shares, Solve, Unit
from scheduler.engine.configs import PolicyError, config_of, configs_of, demands_for, is_feasible, preferred, rate_of
from scheduler.engine.context import Attempt, CycleContext, GivenDemands, backoff_reason
from scheduler.engine.policy import Need
from scheduler.engine.queue import Key
from scheduler.engine.usage import gpus_by_type
from scheduler.model import Job, Locality, PoolState, Rate, Running, View
from scheduler.model.given import given_of
from scheduler.model.invariants import Violation
from scheduler.model.lifecycle import HoldReason, JobClass
from scheduler.model.plan import Denial, Plan
from scheduler.model.request import Config
from scheduler.registry import ConfigError, param

__all__ = [
    "ANY_GPUS",
    "Admission",
    "AssignmentPolicy",
    "Attempt",
    "BasePolicy",
    "Config",
    "ConfigError",
    "Cycle",
    "CyclePolicy",
    "Denial",
    "Grant",
    "HoldReason",
    "IdleGpus",
    "Job",
    "JobClass",
    "Key",
    "Ledger",
    "Locality",
    "LockScope",
    "Need",
    "OrderedPolicy",
    "Plan",
    "PolicyError",
    "Rate",
    "RoundPolicy",
    "Running",
    "Shares",
    "Solve",
    "Unit",
    "View",
    "Violation",
    "param",
    "preferred",
]

MAX_STATE_BYTES = 1 << 20

Level = Literal["tenant", "vc", "owner", "job"]


class Cycle:
    """One decision about one pool: what a policy reads and what it writes. Jobs are named by their ids.

    `now` is in seconds since 1970, or since the start of a simulation. `seed` is for random numbers. `state` is what
    the policy remembered of the pool, None at first and after a change of `state_version`. A `RoundPolicy`
    may say in `solve` how it computed its shares, for the page of the pool.
    """

    def __init__(self, context: CycleContext, *, state_version: int = 1) -> None:
        self.context = context  # for a policy that chooses nodes and GPUs itself: see `scheduler.workshop`
        self.now: float = context.now
        self.seed: int = context.view.seed
        self.solve: Solve | None = None
        self._version = state_version
        stored = context.view.pool_state
        mine = stored is not None and (stored.policy, stored.version) == (context.policy_name, state_version)
        self.state: Mapping[str, Any] | None = stored.data if stored is not None and mine else None

    # Read

    def waiting(self) -> Sequence[Job]:
        """The jobs that may start now and are not placed yet, by id; without those that never can."""
        context = self.context
        return [
            job
            for job in sorted(context.view.waiting, key=lambda job: job.id)
            if job.id not in context.places
            and job.id not in context.reserved
            and backoff_reason(job, self.now) is None
            and configs_of(context, job)
        ]

    def running(self) -> Sequence[Running]:
        """The jobs that run and are neither stopping nor preempted so far, by id."""
        return sorted(filter(self.context.stays, self.context.view.running), key=lambda run: run.job.id)

    def configs(self, job: Job) -> Sequence[Config]:
        """The GPU types and sizes that the job accepts and the empty pool could give it, preferred ones first."""
        return configs_of(self.context, job)

    def rate(self, job: Job, config: Config, beside: Job | None = None) -> Rate | None:
        """The job's rate, in its own unit per second: alone, or with another job on its GPUs; None: unknown."""
        return rate_of(self.context, job, config, beside)

    def may_share(self, job: Job, other: Job) -> bool:
        """True if the two jobs may ever share GPUs: both allow it, for one virtual cluster, with as many GPUs."""
        both = (job.request, other.request)
        return (
            all(request.shares_gpu and request.gpu_memory_mib is not None for request in both)
            and (job.vc_id, job.job_class) == (other.vc_id, other.job_class)
            and both[0].nodes == both[1].nodes
        )

    def held(self, run: Running) -> Config:
        """The configuration in which a job runs."""
        return config_of(self.context, run)

    def closest(self, job: Job, config: Config) -> Config:
        """The configuration on GPUs as close together as the empty pool could give them to the job."""
        for level in Locality:
            near = Config(config.gpu_type, config.gpus, level, batch=config.batch)
            if level is job.request.locality:
                break
            if is_feasible(self.context, demands_for(self.context, job, near)):
                return near
        return config

    def admits(self, job: Job, config: Config) -> bool:
        """True if the quota of its virtual cluster admits the job in the configuration now."""
        demands = demands_for(self.context, job, config)
        return any(self.context.quota_denial(job, demand) is None for demand in demands)

    def weights(self) -> Mapping[int, float]:
        """The weights of the tenants, by id."""
        return {tenant.id: tenant.weight for tenant in self.context.view.tenants}

    def supply(self) -> Mapping[str, int]:
        """The healthy GPUs of the nodes in service, by type, held or free."""
        return +self.context.state.capacity.gpus_in_service

    def usage(self, level: Level) -> Mapping[int, Mapping[str, int]]:
        """The GPUs by type that live jobs and the places of this cycle hold, for each tenant, vc, owner or job."""
        view, held = self.context.view, dict[int, Counter[str]]()
        given = [(run.job, run.allocations) for run in view.running if run.job.id not in self.context.preempts]
        for job_id, place in self.context.places.items():
            run = view.running_by_job.get(job_id)
            given.append((view.waiting_by_id[job_id] if run is None else run.job, place.allocations))
        for job, allocations in given:
            key = {"tenant": job.tenant_id, "vc": job.vc_id, "owner": job.owner_id, "job": job.id}[level]
            held.setdefault(key, Counter()).update(gpus_by_type(view, [share.gpu_ids for share in allocations]))
        return held

    # Write

    def place(self, job: Job, configs: Iterable[Config] = (), victims: Iterable[Running] = ()) -> bool:
        """Start the waiting job in the first configuration that fits, by default in any that it accepts.

        As few victims as it needs stop for it, the first ones first. Returns whether it has a place.

        Raises:
            PolicyError: the job does not wait, has a place already, or does not accept a configuration.
        """
        context = self.context
        if job.id not in context.view.waiting_by_id or job.id in context.places:
            raise PolicyError(f"job {job.id} does not wait in this pool, or has a place already")
        if job.id in context.reserved or backoff_reason(job, self.now) is not None:
            return False
        given = [demand for config in configs for demand in demands_for(context, job, config)]
        demands = given or context.demands(job)
        possible = [one for one in demands if context.state.capacity.infeasible(one) is None]
        admitted = [one for one in possible if context.quota_denial(job, one) is None]
        if context.place(job, admitted):
            return True
        may_stop = [run for run in victims if run.job.preemptible and context.stays(run)]
        return bool(may_stop) and context.place_instead(
            job, may_stop, "its GPUs go to another job", GivenDemands(possible)
        )

    def assign(self, chosen: Mapping[int, Config | None], *, atomic: bool = False) -> frozenset[int]:
        """Give each job its configuration, or none; returns the ids of the jobs that could not get theirs.

        A job whose configuration does not change keeps its GPUs. A running job without one stops. With `atomic`, all
        jobs get theirs or nothing changes. The limit of placements in a cycle does not apply.

        Raises:
            PolicyError: a job is unknown, is placed already, may not stop, or does not accept its configuration.
        """
        return assignment.assign(self.context, chosen, atomic=atomic)

    def preempt(self, run: Running, reason: str, beneficiary: Job | None = None) -> None:
        """Stop a running job; it waits again. Without a beneficiary, its lease has ended.

        Raises:
            PolicyError: the job may not be preempted, or stops already.
        """
        if not run.job.preemptible or not self.context.stays(run):
            raise PolicyError(f"job {run.job.id} may not be preempted, or stops already")
        self.context.release(run)
        self.context.preempt(run, None if beneficiary is None else beneficiary.id, reason)

    def attempt(self) -> AbstractContextManager[Attempt]:
        """`with cycle.attempt() as attempt:` undoes what its block writes unless it calls `attempt.keep()`."""
        return self.context.attempt()

    def pend(self, job: Job, reason: str) -> None:
        """Tell the owner of a waiting job why the policy does not serve it now, in a sentence."""
        self.context.pending_reasons[job.id] = Denial(
            HoldReason.POLICY, reason, {}, ("nothing to do: the policy looks at it again",)
        )

    def give(self, job: Job, values: Mapping[str, str]) -> None:
        """Hand values to the environment of the job, by names of variables, if this decision places it from now on.

        A variable that the job's spec sets keeps the value of the spec. The batch size goes by `Config.batch`.

        Raises:
            PolicyError: a name or a value is not allowed, or there are too many.
        """
        try:
            self.context.given[job.id] = given_of(values)
        except ValueError as error:
            raise PolicyError(f"job {job.id}: {error}") from None

    def note(self, job: Job, memo: Mapping[str, float]) -> None:
        """Remember numbers with a job; they come back as its `policy_state`."""
        self.context.note(job, self.context.view.running_by_job.get(job.id), memo)

    def remember(self, state: Mapping[str, Any]) -> None:
        """Remember JSON with the pool; it comes back as `state` in the next cycle.

        Raises:
            PolicyError: the state is no JSON object, or larger than `MAX_STATE_BYTES`.
        """
        try:
            size = len(json.dumps(state, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise PolicyError(f"the state of the pool is no JSON object: {error}") from None
        if size > MAX_STATE_BYTES:
            raise PolicyError(f"the state of the pool has {size} bytes, more than {MAX_STATE_BYTES}")
        self.context.pool_state = PoolState(self.context.policy_name, self._version, state)

    def wake_at(self, moment: float) -> None:
        """Decide again at the moment, even if nothing happens until then; the earliest wish of a cycle counts.

        Raises:
            ValueError: the moment is not a number, or not within a year after now.
        """
        self.context.wake_at(moment)


class CyclePolicy(BasePolicy):
    """A policy that says itself what happens in a cycle, and with `Cycle.wake_at` when the next one is due.

    Raise `state_version` when the shape of `state` changes.
    """

    __slots__ = ()
    state_version: ClassVar[int] = 1

    def decide(self, cycle: Cycle) -> None:
        """Place, preempt and assign jobs. Jobs that the policy leaves out wait, or keep their GPUs."""
        raise NotImplementedError

    def serve(self, context: CycleContext) -> None:
        self.decide(Cycle(context, state_version=self.state_version))


class AssignmentPolicy(CyclePolicy):
    """Chooses a configuration for each job, once every `every_s` and at each event."""

    __slots__ = ()
    every_s: float = 60.0

    def choose(self, cycle: Cycle) -> Mapping[int, Config | None]:
        """The configuration of each job by its id. A job that is left out waits, or keeps what it has."""
        raise NotImplementedError

    def decide(self, cycle: Cycle) -> None:
        """Carry the choice out."""
        cycle.assign(self.choose(cycle))
        if cycle.waiting() or cycle.running() or cycle.context.places:
            cycle.wake_at(cycle.now + self.every_s)


class RoundPolicy(CyclePolicy):
    """Gives each job shares of time by GPU type, in rounds of `round_s`; `scheduler.bases.rounds` says how.

    The shares are computed anew at the end of a round if jobs came or went, the supply of GPUs changed, or rates became
    known, and at least `reset_s` have passed since the last time. `idle_gpus` says who may take GPUs that no share
    claims; by default jobs that arrive during a round start on free GPUs. Nothing stops before the round ends.
    """

    __slots__ = ()
    round_s: float = 360.0
    reset_s: float = 0.0
    idle_gpus: str = IdleGpus.ALL
    state_version: ClassVar[int] = 2

    def shares(self, cycle: Cycle) -> Shares:
        """The share of time, 0 to 1, of each job by GPU type; the shares of a job add up to at most 1.

        A key is the id of a job, or `(id,)`, or `(id, other id)` for two jobs that share their GPUs.
        """
        raise NotImplementedError

    @property
    def shuffles_types(self) -> bool:
        """True if each round gives the types out in another order."""
        return False

    def order_types(self, cycle: Cycle) -> Sequence[str]:
        """The order in which the GPU types are given out; asked with each solve."""
        return sorted(cycle.supply())

    def decide(self, cycle: Cycle) -> None:
        """Keep the accounts; at the end of a round, hand out the next one."""
        context, ledger = cycle.context, rounds.Ledger.read(cycle.state)
        ledger.account(context)
        candidates, idle = rounds.candidates_of(context), IdleGpus(self.idle_gpus)
        if cycle.now >= ledger.ends_at - rounds.SOON_S:
            inputs = rounds.inputs_of(context, candidates)
            due = not ledger.reset_at or cycle.now - ledger.reset_at >= self.reset_s
            if due and inputs != ledger.inputs:
                ledger.reset(cycle.now, rounds.checked(context, self.shares(cycle)), inputs)
                ledger.types, ledger.solve = list(self.order_types(cycle)), cycle.solve
            ledger.ends_at, ledger.rounds = cycle.now + self.round_s, ledger.rounds + 1
            if self.shuffles_types:
                Random(f"{cycle.seed}:{ledger.rounds}").shuffle(ledger.types)  # noqa: S311 - the same in each replay
            rounds.start_round(context, ledger, candidates, self.round_s, idle)
        else:
            rounds.fill(context, ledger, candidates, self.round_s, idle)
        cycle.remember(ledger.to_state())
        if context.view.waiting_by_id or context.view.running_by_job:
            cycle.wake_at(ledger.ends_at)
