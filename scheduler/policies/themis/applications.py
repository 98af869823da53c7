"""The applications of a pool, out of its waiting and running jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from scheduler.authoring import Config, Cycle, Denial, Job, Running, preferred
from scheduler.policies.themis.bidding import Application, Member

UNKNOWN_S = 3600.0  # the work left of a job without an estimate, at least: it grows with what the job has run
_FASTEST = 1e9  # per second: a higher rate is a mistake, and counts as unknown


def key_of(job: Job) -> str:
    """The application of a job."""
    return f"job {job.id}" if job.group_id is None else f"sweep {job.group_id}"


def live(cycle: Cycle) -> Mapping[str, int]:
    """The tenants of the applications with a live job that this planner decides on."""
    view = cycle.context.view
    jobs = [*view.waiting, *(run.job for run in view.running if not run.foreign)]
    return {key_of(job): job.tenant_id for job in jobs if job.request.needs_gpus}


def applications(cycle: Cycle, holds: Callable[[Running], bool]) -> Mapping[str, Application]:
    """The applications by key; `holds` says whether a running job may keep its GPUs for now.

    A job bids for no GPUs that its quota does not admit.
    """
    view, context = cycle.context.view, cycle.context
    may_start = {job.id for job in cycle.waiting()}
    found: dict[str, list[Member]] = {}
    first: dict[str, Job] = {}
    for run in view.running:
        if not run.foreign and run.job.request.needs_gpus:
            on = cycle.held(run)
            staying = context.stays(run)
            member = _member(cycle, run.job, run, on, held=on.gpus if holds(run) else 0, may_start=staying)
            found.setdefault(key_of(run.job), []).append(member)
            first.setdefault(key_of(run.job), run.job)
    for job in view.waiting:
        if job.request.needs_gpus:
            # What is reserved for it, or placed at the start of the cycle, is as good as held.
            taken = job.id in context.reserved or job.id in context.places
            given = next(iter(cycle.configs(job)), None) if taken else None
            held = 0 if given is None else given.gpus
            member = _member(cycle, job, None, given, held=held, may_start=job.id in may_start)
            found.setdefault(key_of(job), []).append(member)
            first.setdefault(key_of(job), job)
    return {key: _application(cycle, key, first[key], members) for key, members in found.items()}


def job_of(cycle: Cycle, job_id: int) -> Job:
    """The waiting or running job."""
    run = cycle.context.view.running_by_job.get(job_id)
    return cycle.context.view.waiting_by_id[job_id] if run is None else run.job


class Quotas:
    """Quota left to virtual clusters in one auction; runs whose leases have ended hold nothing."""

    def __init__(self, cycle: Cycle, ended: Iterable[Running]) -> None:
        self._cycle, self._ledger = cycle, cycle.context.ledger.copy()
        for run in ended:
            self._ledger.give(run.job, run.allocations)

    def charge(self, job_id: int, config: Config) -> bool:
        """Count the job from now on if the quota admits it there; True if so."""
        job = job_of(self._cycle, job_id)
        if isinstance(self._ledger.offer(job, config), Denial):
            return False
        self._ledger.promise(job, config.gpu_type or "", config.gpus)
        return True


def _application(cycle: Cycle, key: str, job: Job, members: list[Member]) -> Application:
    members.sort(key=lambda member: member.job_id)
    group = None if job.group_id is None else cycle.context.view.group_by_id.get(job.group_id)
    if group is None:
        return Application(key, job.tenant_id, job.submitted_at, tuple(members))
    return Application(
        key, job.tenant_id, group.submitted_at, tuple(members), group.done_gpu_s, group.to_come_gpu_s or 0.0
    )


def _member(cycle: Cycle, job: Job, run: Running | None, on: Config | None, *, held: int, may_start: bool) -> Member:
    configs = {kind: config for kind, config in preferred(cycle.configs(job)).items() if config.gpus}
    if may_start and not held:
        configs = {kind: config for kind, config in configs.items() if cycle.admits(job, config)}
    if on is not None and on.gpu_type is not None:
        configs[on.gpu_type] = on
    told = {kind: cycle.rate(job, config) for kind, config in configs.items()}
    known = {kind: rate.mean for kind, rate in told.items() if rate is not None and 0 <= rate.mean <= _FASTEST}
    positive = [rate for rate in known.values() if rate > 0]
    usual = sum(positive) / len(positive) if positive else 1.0
    per_gpu = {kind: known.get(kind, usual) / config.gpus for kind, config in configs.items()}
    fastest = max(per_gpu.values(), default=0.0)
    remaining_s = run.remaining_s(cycle.now) if run is not None else job.remaining_s
    gpu_s = float(job.request.gpus_total)  # work for each second of the estimate, which holds for its first choice
    if positive and fastest > 0:
        preference = next(iter(configs))
        rate = job.expected_rate or known.get(preference, usual)
        gpu_s = rate / fastest
    attained = run.attained_gpu_s(cycle.now) if run is not None else job.attained_gpu_s
    if remaining_s is None or job.expected_s is None:
        left, done = max(attained, UNKNOWN_S * job.request.gpus_total), attained
    else:
        left, done = remaining_s * gpu_s, max(0.0, job.expected_s - remaining_s) * gpu_s
    return Member(
        job_id=job.id,
        left=left,
        done=done,
        gangs={kind: config.gpus for kind, config in configs.items() if per_gpu[kind] > 0},
        speeds={kind: rate / fastest for kind, rate in per_gpu.items() if fastest > 0},
        slowdowns={
            one.gpu_type: max(1.0, one.slowdown)
            for one in job.rates
            if one.slowdown is not None and one.gpu_type in configs and one.gpus == configs[one.gpu_type].gpus
        },
        on=None if on is None else on.gpu_type,
        held=held,
        may_start=may_start,
    )
