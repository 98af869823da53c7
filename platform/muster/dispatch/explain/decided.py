"""The decisions of a policy with shares of time about each job of a pool, in words and figures."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db.models import Q

from muster.dispatch.config.plugins import made
from muster.dispatch.config.policy_state import pool_state_of
from muster.dispatch.config.settings import config_of
from muster.fleet.models import Pool
from muster.jobs.models import Attempt, Job
from muster.samples.rates import LIVE, KnownRate, live_rates
from scheduler.authoring import RoundPolicy
from scheduler.bases.rounds import MIN_SHARE, Ledger, Solve, Unit
from scheduler.model.lifecycle import ATTEMPT_LIVE

MAX_ROWS = 500


@dataclass(frozen=True, slots=True)
class TypeShare:
    """A job's or a pair's share of time on one GPU type since the last solve; shares are from 0 to 1.

    `turn` counts from 1: its place when the GPUs of the type are given out next; None: it has no share of them.
    """

    gpu_type: str
    share: float
    received: float
    deficit_s: float
    turn: int | None
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
    """The shares of the last solve, the largest first, and the time that jobs received until `counted_at`."""

    solved_at: datetime
    counted_at: datetime
    ends_at: datetime
    round_s: float
    total: int  # of the jobs and pairs with shares; `rows` has the first ones
    solve: Solve | None  # None: the policy tells nothing of it
    rows: Sequence[Decided]


@dataclass(frozen=True, slots=True)
class Spell:
    """A time during which a job held GPUs of one type; `ended_at` is None while it does."""

    gpu_type: str
    gpus: int
    began_at: datetime
    ended_at: datetime | None


def last_round(pool: Pool) -> LastRound | None:
    """The last round of the pool's policy; None for a policy without rounds, or before the first one."""
    state, policy = pool_state_of(pool), round_policy_of(pool)
    if state is None or policy is None:
        return None
    if (state.policy, state.version) != (config_of(pool).policy, policy.state_version):
        return None
    ledger = Ledger.read(state.data)
    if ledger.reset_at is None:
        return None
    jobs = {job.pk: job for job in Job.objects.filter(pool=pool, state__in=LIVE).select_related("tenant")}
    runs = Attempt.objects.filter(job__in=jobs, state__in=ATTEMPT_LIVE)
    held = {attempt.job_id: attempt.request.first.gpu_type or "" for attempt in runs}
    rates, span_s = live_rates(pool.pk), max(1.0, ledger.at - ledger.reset_at)
    turns = _turns(ledger, policy.round_s, jobs)
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
                turns.get((kind, unit)),
                known.get(kind),
            )
            for kind in ledger.types
            if account.shares.get(kind, 0.0) > MIN_SHARE or account.received_s.get(kind)
        ]
        if by_type:
            rows.append(Decided(unit, _title(members), by_type, _why(members[0], held.get(unit[0]), by_type)))
    rows.sort(key=lambda row: (-sum(one.share for one in row.by_type), row.job_ids))
    solved_at, counted_at, ends_at = (
        datetime.fromtimestamp(at, UTC) for at in (ledger.reset_at, ledger.at, ledger.ends_at)
    )
    return LastRound(solved_at, counted_at, ends_at, policy.round_s, len(rows), ledger.solve, rows[:MAX_ROWS])


def recent_spells(pool: Pool, since: datetime) -> Mapping[Job, Sequence[Spell]]:
    """Spells in which jobs held GPUs since that moment, by job, the oldest job first; the newest `MAX_ROWS`."""
    attempts = Attempt.objects.filter(Q(ended_at=None) | Q(ended_at__gt=since), job__pool=pool, job__gpus__gt=0)
    found: dict[Job, list[Spell]] = {}
    for one in sorted(attempts.select_related("job__tenant").order_by("-id")[:MAX_ROWS], key=lambda one: one.pk):
        choice = one.request.first
        spell = Spell(choice.gpu_type or "", one.request.gpus_total, one.placed_at, one.ended_at)
        found.setdefault(one.job, []).append(spell)
    return dict(sorted(found.items(), key=lambda entry: entry[0].pk))


def solve_in_words(solve: Solve) -> str:
    """The number of jobs that were solved together, and the loss by that, in words."""
    kinds = "" if solve.rows == solve.jobs else f" as {solve.rows:,} kinds of equal jobs"
    solved = f"{solve.jobs:,} {'job was' if solve.jobs == 1 else 'jobs were'} solved{kinds}"
    if solve.parts == 1:
        return f"{solved}, which loses nothing." if kinds else f"{solved} exactly."
    if solve.lost is None:
        return f"{solved} in {solve.parts} random parts. How much that loses is not known for this objective."
    return f"{solved} in {solve.parts} random parts, which loses at most {100 * solve.lost:.3g} % of the optimum."


def round_policy_of(pool: Pool) -> RoundPolicy | None:
    """The policy by which the pool decides now, if it hands out shares in rounds."""
    config = config_of(pool)
    policy = made("policy", config.policy, config.policy_params)
    return policy if isinstance(policy, RoundPolicy) else None


def _turns(ledger: Ledger, round_s: float, jobs: Collection[int]) -> Mapping[tuple[str, Unit], int]:
    """The order in which units would be served on each type if the round ended now, from 1."""
    present = [unit for unit in ledger.accounts if all(job_id in jobs for job_id in unit)]
    found: dict[tuple[str, Unit], int] = {}
    for kind in ledger.types:
        claims = {unit: ledger.claim(unit, kind, round_s) for unit in present}
        ranked = sorted(unit for unit in present if claims[unit][2] > MIN_SHARE)
        ranked.sort(key=lambda unit: claims[unit], reverse=True)
        found |= {(kind, unit): turn for turn, unit in enumerate(ranked, 1)}
    return found


def _title(jobs: Sequence[Job]) -> str:
    return " with ".join(
        f"#{job.pk} {job.name} ({job.tenant.name}), {job.gpus_total} GPU{'s' * (job.gpus_total != 1)}" for job in jobs
    )


def _why(job: Job, here: str | None, by_type: Sequence[TypeShare]) -> str:
    if here is None:
        return f"waits: {job.hold['detail']}" if job.hold else "waits"
    (share, received) = next(((one.share, one.received) for one in by_type if one.gpu_type == here), (0.0, 0.0))
    if share > MIN_SHARE:
        return f"runs on {here}: its share of time is {share:.0%} there, and it received {received:.0%}"
    return f"runs on {here}: its share of time is nothing there, but no job with a share took these GPUs"
