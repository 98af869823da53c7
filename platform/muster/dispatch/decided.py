"""What a policy that gives out shares of time decided about each job of a pool, in words and figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from muster.common.clock import utc_now
from muster.dispatch.policy_state import pool_state_of
from muster.dispatch.settings import config_of
from muster.fleet.models import Pool
from muster.jobs.models import Attempt, Job
from muster.samples.rates import LIVE, KnownRate, live_rates
from scheduler.authoring import RoundPolicy
from scheduler.bases.rounds import LEAST_SHARE, Ledger, Unit
from scheduler.engine.policy import POLICIES
from scheduler.model.lifecycle import ATTEMPT_LIVE

MAX_ROWS = 500


@dataclass(frozen=True, slots=True)
class TypeShare:
    """A job's or a pair's share of time on one GPU type since the last solve; shares are from 0 to 1."""

    gpu_type: str
    share: float
    received: float
    deficit_s: float
    rate: KnownRate | None


@dataclass(frozen=True, slots=True)
class Decided:
    """One job, or two that share GPUs: `title` names them, and `why` says where they are and why."""

    job_ids: Unit
    title: str
    by_type: Sequence[TypeShare]
    why: str


@dataclass(frozen=True, slots=True)
class LastRound:
    """The last solve, the end of the round, and what was decided for each job, the largest share first."""

    solved_at: datetime
    ends_at: datetime
    rows: Sequence[Decided]


def last_round(pool: Pool) -> LastRound | None:
    """What the pool's policy decided in its last round; None for a policy without rounds, or before the first one."""
    state, config = pool_state_of(pool), config_of(pool)
    if state is None or state.policy != config.policy or state.policy not in POLICIES.names:
        return None
    policy = POLICIES.make(state.policy, config.policy_params)
    if not isinstance(policy, RoundPolicy) or policy.state_version != state.version:
        return None
    ledger = Ledger.read(state.data)
    if ledger.reset_at is None:
        return None
    jobs = {job.pk: job for job in Job.objects.filter(pool=pool, state__in=LIVE).select_related("tenant")}
    runs = Attempt.objects.filter(job__in=jobs, state__in=ATTEMPT_LIVE)
    held = {attempt.job_id: attempt.request.first.gpu_type or "" for attempt in runs}
    rates, span_s = live_rates(pool.pk), max(1.0, utc_now().timestamp() - ledger.reset_at)
    rows = []
    for unit, account in ledger.accounts.items():
        members = [jobs[job_id] for job_id in unit if job_id in jobs]
        if len(members) < len(unit):
            continue
        known = {rate.gpu_type: rate for rate in rates.get(unit[0], ())}
        by_type = [
            TypeShare(
                kind,
                account.shares.get(kind, 0.0),
                min(1.0, account.received_s.get(kind, 0.0) / span_s),
                account.deficit_s.get(kind, 0.0),
                known.get(kind),
            )
            for kind in ledger.types
            if account.shares.get(kind, 0.0) > LEAST_SHARE or account.received_s.get(kind)
        ]
        if by_type:
            rows.append(Decided(unit, _title(members), by_type, _why(held.get(unit[0]), by_type)))
    rows.sort(key=lambda row: -sum(one.share for one in row.by_type))
    return LastRound(_moment(ledger.reset_at), _moment(ledger.ends_at), rows[:MAX_ROWS])


def _title(jobs: Sequence[Job]) -> str:
    return " with ".join(f"#{job.pk} {job.name} ({job.tenant.name}), {job.gpus_total} GPUs" for job in jobs)


def _why(here: str | None, by_type: Sequence[TypeShare]) -> str:
    place = "waits" if here is None else f"runs on {here}"
    shares = "; ".join(f"{one.share:.0%} of {one.gpu_type}, received {one.received:.0%}" for one in by_type)
    return f"{place}: its share of time is {shares} since the last solve"


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
