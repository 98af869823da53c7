"""One cycle: an admission, a policy and a placement composed into `decide(snapshot, config) -> plan`.

Production, dry runs, replays and tests call this function. It is pure: it reads only its arguments and stores nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from scheduler.admission import ADMISSIONS, Admission
from scheduler.engine.context import CycleContext
from scheduler.engine.pending import holds
from scheduler.engine.policy import POLICIES, Policy
from scheduler.engine.reorder import order_of
from scheduler.engine.reservations import bind_reservations
from scheduler.engine.state import SchedulerState
from scheduler.engine.target import Target, follow, with_holds_of
from scheduler.engine.wake import next_wake
from scheduler.model import Job, Snapshot
from scheduler.model.plan import Denial, Hold, Plan
from scheduler.placement import PLACEMENTS, Placement
from scheduler.registry import ConfigError


@dataclass(frozen=True, slots=True)
class CycleConfig:
    """The settings of a pool: one plug-in of each kind, by name, with its parameters."""

    policy: str = "fifo"
    policy_params: Mapping[str, object] = field(default_factory=dict)
    placement: str = "consolidate"
    placement_params: Mapping[str, object] = field(default_factory=dict)
    admission: str = "quota"
    admission_params: Mapping[str, object] = field(default_factory=dict)
    max_places: int = 256


@dataclass(frozen=True, slots=True)
class Profile:
    """The plug-ins of a configuration."""

    policy: Policy
    placement: Placement
    admission: Admission
    policy_name: str = ""


@dataclass(frozen=True, slots=True)
class Forecast:
    """The outlook of a job that is not submitted yet. `hold` is None if it `starts_now`.

    `feasible` and `fits_quota` tell whether capacity and quota would ever let it start. In a pool without nodes both
    are True, because its GPU types are unknown.
    """

    feasible: bool
    fits_quota: bool
    starts_now: bool
    hold: Hold | None


def compose(config: CycleConfig) -> Profile:
    """The plug-ins of the configuration.

    Raises:
        ConfigError: a plug-in or a parameter is wrong; the message names it.
    """
    if config.max_places < 1:
        raise ConfigError(f"max_places must be at least 1, not {config.max_places}")
    policy = POLICIES.make(config.policy, config.policy_params)
    admission = ADMISSIONS.make(config.admission, config.admission_params)
    if admission.chooses_gpus and getattr(policy, "chooses_gpus", False):
        raise ConfigError(f"policy {config.policy} and admission {config.admission} both choose GPUs themselves")
    return Profile(
        policy=policy,
        placement=PLACEMENTS.make(config.placement, config.placement_params),
        admission=admission,
        policy_name=config.policy,
    )


def decide(snapshot: Snapshot, config: CycleConfig) -> Plan:
    """The plan for a snapshot. It places each waiting job or holds it with a reason, and says when to decide again."""
    parts = compose(config)
    plan = decide_on(SchedulerState(snapshot), parts, max_places=config.max_places)
    return replace(plan, wake_at=next_wake(snapshot, plan, parts.policy, parts.placement))


def decide_by_target(snapshot: Snapshot, config: CycleConfig, target: Target) -> tuple[Plan, Mapping[int, str]]:
    """The plan that carries out what is still possible of a target and fills the rest by the configuration.

    Also the reasons for what is dropped of the target, by job.
    """
    state, parts = SchedulerState(snapshot), compose(config)
    context = _context(state, parts, max_places=config.max_places, explain=True)
    dropped = follow(context, target)
    parts.policy.serve(context)
    plan = replace(context.plan(), pool_state=target.plan.pool_state)
    left = [job for job in order_of(parts.policy, state.view) if job.id not in context.places]
    plan = replace(plan, holds=with_holds_of(target, tuple(holds(context, left))))
    return replace(plan, wake_at=next_wake(snapshot, plan, parts.policy, parts.placement)), dropped


def decide_on(state: SchedulerState, parts: Profile, *, max_places: int, explain: bool = True) -> Plan:
    """The plan for a state. The indexes of the state then show the pool after the plan.

    Without `explain` the plan has no holds; a simulation of millions of decisions does not need them. `wake_at` is only
    the wish of the policy.
    """
    context = _context(state, parts, max_places=max_places, explain=explain)
    parts.policy.serve(context)
    plan = context.plan()
    if not explain:
        return plan
    left = [job for job in order_of(parts.policy, state.view) if job.id not in context.places]
    return replace(plan, holds=tuple(holds(context, left)))


def places_in_trial(state: SchedulerState, parts: Profile, *, max_places: int) -> Collection[int]:
    """The ids of the jobs that a decision on the state would place; the state stays as it is.

    Reservations count as they stand: none of them is bound.
    """
    context = _bare_context(state, parts, max_places=max_places, explain=False)
    with context.attempt():
        parts.policy.serve(context)
        context.bind_deferred_lots()
        return frozenset(context.places)


def _context(state: SchedulerState, parts: Profile, *, max_places: int, explain: bool) -> CycleContext:
    """The context of a decision, with the reservations that can be met."""
    context = _bare_context(state, parts, max_places=max_places, explain=explain)
    bind_reservations(context)
    return context


def _bare_context(state: SchedulerState, parts: Profile, *, max_places: int, explain: bool) -> CycleContext:
    return CycleContext(
        state,
        parts.admission,
        parts.placement,
        max_places=max_places,
        explain=explain,
        policy_name=parts.policy_name,
        kept_together=getattr(parts.policy, "kept_together", None),
    )


def forecast(snapshot: Snapshot, config: CycleConfig, job: Job, target: Target | None = None) -> Forecast:
    """The outlook of `job` if it waited too. It replaces a waiting job with the same id.

    With a target, nothing is solved: the job gets what the target and the configuration leave.
    """
    others = [other for other in snapshot.waiting if other.id != job.id]
    world = replace(snapshot, waiting=tuple(sorted([*others, job], key=lambda waiting: waiting.id)))
    parts, state = compose(config), SchedulerState(world)
    context = _context(state, parts, max_places=config.max_places, explain=True)
    if target is None:
        # `decide` without the reasons of the jobs behind this one, and without its next moment.
        parts.policy.serve(context)
        placed = {place.job_id for place in context.plan().places}
        left = (other for other in order_of(parts.policy, state.view) if other.id not in placed)
        reasons: Iterable[Hold] = () if job.id in placed else holds(context, left)
    else:
        reasons = decide_by_target(world, config, target)[0].holds
    hold = next((hold for hold in reasons if hold.job_id == job.id), None)
    demands = context.demands(job)
    nothing_held = parts.admission.ledger(replace(world, running=(), reservations=()))
    return Forecast(
        feasible=any(state.capacity.infeasible(demand) is None for demand in demands),
        fits_quota=not snapshot.nodes
        or any(not isinstance(nothing_held.offer(job, demand.config), Denial) for demand in demands),
        starts_now=hold is None,
        hold=hold,
    )
