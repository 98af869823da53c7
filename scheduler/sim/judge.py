"""Fairness of a policy's decision on a snapshot: `judge` decides and holds the plan against the definitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf

from scheduler.engine.cycle import CycleConfig, decide
from scheduler.model import AllocationView, Job, Snapshot
from scheduler.model.lifecycle import HoldReason
from scheduler.model.plan import Plan
from scheduler.sim.fairness import EPSILON, Better, Bundle, Envy, Loss, Party, Remaining, Verdicts, Way, fits, verdicts

_NAMED = 3  # jobs in a sentence
_BY_QUOTA = (HoldReason.QUOTA, HoldReason.QUOTA_TOO_SMALL)


class Parties(StrEnum):
    """Between whom fairness is judged."""

    TENANT = "tenant"
    APPLICATION = "application"
    """A sweep is one, and so is each job outside of a sweep."""
    JOB = "job"


class Shares(StrEnum):
    """Definitions of a party's own share.

    - `WEIGHT`: of each GPU type the part of its tenant's weight among the tenants with live jobs; of an application
      or a job, an equal part.
    - `QUOTA`: the quotas of the tenant's virtual clusters; of an application or a job, an equal part of its virtual
      cluster's quota.
    """

    WEIGHT = "weight"
    QUOTA = "quota"


@dataclass(frozen=True, slots=True)
class Idle:
    """GPUs of one type that jobs of a party could start on as they are, and why the first of these jobs waits.

    `owners` are the other tenants whose quotas keep the GPUs from them, by what they do not use of these.
    """

    party: str
    gpu_type: str
    gpus: int
    job_ids: tuple[int, ...]
    why: str
    owners: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdicts on a plan, and between which parties; `held` are the GPUs of each job by type."""

    by: Parties
    shares: Shares
    parties: tuple[Party, ...]
    held: Mapping[int, Mapping[str, int]]
    idle: tuple[Idle, ...]
    verdicts: Verdicts

    def sentences(self) -> tuple[str, ...]:
        """Unfair properties with their evidence, worst first; empty where all three properties hold."""
        found = [_loss(loss, self) for loss in self.verdicts.losses]
        if self.verdicts.better is not None:
            found += [_idle(idle) for idle in self.idle] or [_better(self.verdicts.better, self)]
        return (*found, *(_envy(envy) for envy in self.verdicts.envies))


def judge(
    snapshot: Snapshot,
    config: CycleConfig,
    *,
    by: Parties = Parties.TENANT,
    shares: Shares = Shares.WEIGHT,
    remaining_s: Remaining = lambda: inf,
) -> Judgement:
    """The verdicts on what the configuration's policy gives out of this snapshot.

    Raises:
        ValueError: the plan has jobs share a GPU, which the definitions do not cover.
        TimeoutError: the time was over before they were found.
    """
    plan = decide(snapshot, config)
    held = held_after(snapshot, plan)
    supply, free = _supply(snapshot, held)
    parties = tuple(_parties(snapshot, held, supply, by, shares))
    by_job = {
        job_id: {kind: sum(nodes) for kind, nodes in _bundle(snapshot, _gpu_ids(shares)).items()}
        for job_id, shares in held.items()
    }
    # Quotas are those of tenants, and each other admission keeps them for guaranteed jobs.
    hard = by is Parties.TENANT and shares is Shares.QUOTA and config.admission != "open"
    idle = tuple(_idle_gpus(snapshot, plan, parties, by_job, free))
    return Judgement(by, shares, parties, by_job, idle, verdicts(parties, supply, remaining_s, hard=hard))


def held_after(snapshot: Snapshot, plan: Plan) -> Mapping[int, tuple[AllocationView, ...]]:
    """The GPUs of each job once the plan is carried out and the preempted jobs have stopped, by job id."""
    gone = {preempt.job_id for preempt in plan.preempts}
    kept = {
        one.job_id: one.allocations
        for one in snapshot.reservations
        if not one.offered and one.until > snapshot.now and one.job_id not in plan.drops
    }
    running = {run.job_id: run.allocations for run in snapshot.running if not run.stopping and run.job_id not in gone}
    held = running | kept | {place.job_id: place.allocations for place in plan.places}
    holders = Counter(gpu_id for shares in held.values() for gpu_id in _gpu_ids(shares))
    shared = [gpu_id for gpu_id, jobs in holders.items() if jobs > 1]
    if shared:
        raise ValueError(f"several jobs hold GPU {shared[0]}: fairness is judged only where each job has its own GPUs")
    return held


def _supply(snapshot: Snapshot, held: Mapping[int, tuple[AllocationView, ...]]) -> tuple[Bundle, Bundle]:
    """The GPUs that are held or could be, without those that are offered to schedulers outside; and those not held."""
    used = {gpu_id for shares in held.values() for gpu_id in _gpu_ids(shares)}
    offered = {gpu_id for gpu_id, job_id in snapshot.reserved_gpus.items() if job_id < 0}
    usable = {
        gpu.id
        for node in snapshot.nodes
        for gpu in node.gpus
        if node.schedulable and gpu.healthy and gpu.id not in offered
    }
    return _bundle(snapshot, usable | used), _bundle(snapshot, usable - used)


def _idle_gpus(
    snapshot: Snapshot,
    plan: Plan,
    parties: Iterable[Party],
    held: Mapping[int, Mapping[str, int]],
    free: Bundle,
) -> Iterable[Idle]:
    """The idle GPUs of each type that waiting jobs of a party could start on, each by itself."""
    holds = {hold.job_id: hold for hold in plan.holds}
    for party in parties:
        starts: dict[str, list[int]] = {}
        for job_id, ways in party.jobs.items():
            way = next((way for way in ways if job_id in holds and fits(way, free)), None)
            if way is not None:
                starts.setdefault(way.gpu_type, []).append(job_id)
        for kind, job_ids in starts.items():
            hold = holds[job_ids[0]]
            owners = _unused(snapshot, held, kind, party) if hold.reason in _BY_QUOTA else {}
            yield Idle(party.name, kind, sum(free[kind]), tuple(job_ids), hold.detail, owners)


def _unused(snapshot: Snapshot, held: Mapping[int, Mapping[str, int]], kind: str, without: Party) -> Mapping[str, int]:
    """The GPUs of this type that other tenants have in their quotas and do not hold, by their names."""
    tenant_of = {job.id: job.tenant_id for job in (*snapshot.waiting, *(run.job for run in snapshot.running))}
    unused = Counter[int]()
    for vc in snapshot.vcs:
        unused[vc.tenant_id] += vc.quotas.get(kind, 0)
    for job_id, gpus in held.items():
        unused[tenant_of[job_id]] -= gpus.get(kind, 0)
    own = {tenant_of[job_id] for job_id in without.jobs}
    return {
        f"tenant {tenant.name}": unused[tenant.id]
        for tenant in snapshot.tenants
        if unused[tenant.id] > 0 and tenant.id not in own
    }


def _gpu_ids(shares: Iterable[AllocationView]) -> Iterable[int]:
    return (gpu_id for share in shares for gpu_id in share.gpu_ids)


def _bundle(snapshot: Snapshot, gpu_ids: Iterable[int]) -> Bundle:
    """The number of these GPUs on each node, by type; GPUs that have left the pool do not count."""
    gpus = [snapshot.gpu_by_id[gpu_id] for gpu_id in gpu_ids if gpu_id in snapshot.gpu_by_id]
    counts = Counter((gpu.type, gpu.node_id) for gpu in gpus)
    found: dict[str, tuple[int, ...]] = {}
    for (kind, _), number in sorted(counts.items()):
        found[kind] = (*found.get(kind, ()), number)
    return found


def _parties(
    snapshot: Snapshot, held: Mapping[int, tuple[AllocationView, ...]], supply: Bundle, by: Parties, shares: Shares
) -> Iterable[Party]:
    live = [job for job in snapshot.waiting if job.eligible_at <= snapshot.now]
    live += [run.job for run in snapshot.running if not run.stopping]
    members: dict[int, list[Job]] = {}
    for job in sorted(live, key=lambda job: job.id):
        if job.request.needs_gpus:
            members.setdefault(_party(job, by), []).append(job)
    names = {tenant.id: tenant.name for tenant in snapshot.tenants}
    weights = {tenant.id: tenant.weight for tenant in snapshot.tenants} if by is Parties.TENANT else {}
    total = sum(weights.get(key, 1.0) for key in members)
    in_vc = Counter(jobs[0].vc_id for jobs in members.values())
    for key, jobs in members.items():
        vcs = [vc for vc in snapshot.vcs if (key == vc.tenant_id if by is Parties.TENANT else jobs[0].vc_id == vc.id)]
        share = {}
        for kind, nodes in supply.items():
            if shares is Shares.WEIGHT:
                share[kind] = sum(nodes) * weights.get(key, 1.0) / total
            else:
                quota = float(sum(vc.quotas.get(kind, 0) for vc in vcs))
                share[kind] = quota if by is Parties.TENANT else quota / in_vc[jobs[0].vc_id]
            share[kind] = min(share[kind], float(sum(nodes)))
        yield Party(
            name=f"tenant {names.get(key, key)}" if by is Parties.TENANT else _name(key),
            jobs={job.id: tuple(way for way in _ways(job, sorted(supply)) if fits(way, supply)) for job in jobs},
            holds=_bundle(snapshot, (gpu_id for job in jobs for gpu_id in _gpu_ids(held.get(job.id, ())))),
            share=share,
        )


def _party(job: Job, by: Parties) -> int:
    """The id of the job's party; of a sweep, the negated one of its group."""
    if by is Parties.TENANT:
        return job.tenant_id
    return -job.group_id if by is Parties.APPLICATION and job.group_id is not None else job.id


def _name(key: int) -> str:
    return f"sweep {-key}" if key < 0 else f"job {key}"


def _ways(job: Job, types: list[str]) -> Iterable[Way]:
    """The sizes that the job accepts on these types, with their worth by its rates.

    The rate of its first choice with a known one is worth the GPUs of its first choice. An unknown rate is taken as the
    mean of the known ones, and without any, work is as fast on each type and follows the job's `speeds`.
    """
    request = job.request
    known = {(rate.gpu_type, rate.gpus): rate.rate.mean for rate in job.rates}
    positive = [rate for rate in known.values() if rate > 0]
    choices = [choice for choice in request.choices_among(types) if choice.gpu_type in types]
    firsts = (known.get((choice.gpu_type or "", choice.gpus * request.nodes), 0.0) for choice in choices)
    base = next((rate for rate in firsts if rate > 0), positive[0] if positive else 1.0)
    for choice in choices:
        for total in sorted(request.sizes(choice)):
            kind = choice.gpu_type or ""
            relative = job.speed_on(total)
            if positive:
                relative = known.get((kind, total), sum(positive) / len(positive)) / base
            if relative <= 0:
                continue
            worth = request.gpus_total * relative
            if request.divisible:
                yield Way(kind, 1, worth, total, apart=False)
            else:
                for given in request.in_size(choice, total):
                    yield Way(kind, given.first.gpus, worth, given.nodes)


def _loss(loss: Loss, found: Judgement) -> str:
    several = found.by is Parties.TENANT or len(loss.party.jobs) > 1
    own = "quota" if found.shares is Shares.QUOTA else "share"
    return (
        f"{loss.party.name} holds {_held(loss.party.holds)} and does the work of {_count(loss.value)}; alone on its "
        f"{own}, {_gpus(loss.party.share)}, it would do that of {_count(loss.alone)}"
        + (f", with {_and(_jobs(loss.job_ids))}" if several else "")
    )


def _envy(envy: Envy) -> str:
    return (
        f"{envy.party.name} would do the work of {_count(envy.other_value)} instead of {_count(envy.value)} with what "
        f"{envy.other.name} holds, {_held(envy.other.holds)}"
    )


def _idle(idle: Idle) -> str:
    """`tenant vision leaves 4 A100 of its quota idle that tenant nlp could use for job 7: nlp uses 4 of its 4 A100`."""
    gpus = f"{idle.gpus} {idle.gpu_type}"
    if len(idle.owners) == 1:
        ((owner, number),) = idle.owners.items()
        left = f"{owner} leaves {min(number, idle.gpus)} {idle.gpu_type} of its quota idle"
    elif idle.owners:
        left = f"{_and(list(idle.owners))} leave {gpus} of their quotas idle"
    else:
        left = f"{gpus} {'is' if idle.gpus == 1 else 'are'} idle"
    return f"{left} that {idle.party} could use for {_or(_jobs(idle.job_ids))}: {idle.why}"


def _better(better: Better, found: Judgement) -> str:
    """A gain for which idle GPUs do not suffice: jobs would have to change places."""
    gains = [
        f"{party.name} could do the work of {_count(after)} instead of {_count(before)}"
        for party, (before, after) in zip(found.parties, better.values, strict=True)
        if after > before * (1 + EPSILON)
    ]
    changes = []
    for job_id in sorted(job_id for party in found.parties for job_id in party.jobs):
        way = better.runs.get(job_id)
        gpus = {way.gpu_type: way.size} if way is not None else {}
        if gpus != found.held.get(job_id, {}):
            changes.append(f"job {job_id} ran on {_gpus(gpus)}" if gpus else f"job {job_id} waited")
    return f"{_and(gains)} without a loss to another {found.by}, if {_and(_first(changes, 'another change'))}"


def _jobs(job_ids: Sequence[int]) -> list[str]:
    return _first([f"job {job_id}" for job_id in job_ids], "another")


def _first(parts: list[str], more: str) -> list[str]:
    """The parts, or the first of them and the number of the others."""
    others = len(parts) - _NAMED
    if others <= 0:
        return parts
    return [*parts[:_NAMED], more if others == 1 else f"{others} others"]


def _held(bundle: Bundle) -> str:
    return _gpus({kind: float(sum(nodes)) for kind, nodes in bundle.items()})


def _gpus(numbers: Mapping[str, float] | Mapping[str, int]) -> str:
    return _and([f"{number:.3g} {kind}" for kind, number in sorted(numbers.items()) if number > 0]) or "no GPUs"


def _count(gpus: float) -> str:
    return f"{gpus:.3g} GPU" if gpus == 1 else f"{gpus:.3g} GPUs"


def _and(parts: list[str], word: str = "and") -> str:
    return ", ".join(parts[:-1]) + f" {word} {parts[-1]}" if len(parts) > 1 else "".join(parts)


def _or(parts: list[str]) -> str:
    return _and(parts, "or")
