"""Whether a job that is about to be submitted is screened, and why or why not."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from muster.common.clock import database_now
from muster.jobs.attempt.runs import ScreeningRun
from muster.jobs.models import Job
from muster.jobs.spec.mounts import DEFAULT_WORKDIR
from muster.jobs.spec.shares import Shares
from muster.jobs.submit.volumes import are_mounted_in
from muster.screening.models import PoolScreening, ScreeningResult
from muster.screening.room import choice_for, room_of, screening_run_for
from muster.screening.selectors import passed_of_late, screening_of
from scheduler.diagnosis.screening import Mode, ScreeningVerdict, combined, identity_of, is_screened
from scheduler.model.request import Choice


@dataclass(frozen=True, slots=True)
class Outlook:
    """The decision of screening about a job: screen it (`run`) or let it go on, and the reason."""

    why: str
    screening: PoolScreening | None = None
    run: ScreeningRun | None = None
    digest: str = ""
    goes_on: ScreeningVerdict | None = None
    """For a job that would have been screened: why it is not."""
    trusted: ScreeningResult | None = None


def outlook_of(job: Job) -> Outlook:
    """The decision of screening about a job that is not stored yet; it is in the pool of its virtual cluster."""
    mode = combined(of_job=Mode(job.spec.get("screening", Mode.NEVER)), of_tenant=Mode(job.tenant.screening))
    if mode is Mode.NEVER:
        who = "its tenant" if job.tenant.screening == Mode.NEVER else "its spec"
        return Outlook(f"{who} says that it is not screened")
    if job.gpus_total <= 1:
        return Outlook("it is no larger than a screening run")
    screening = screening_of(job.pool_id)
    if screening is None:
        return Outlook(f"pool {job.pool.name} screens no jobs")
    if not is_screened(screening.rules, mode, job.gpus_total):
        return Outlook(f"it asks for no more than {screening.min_gpus} GPUs", screening)
    return _of_one_that_is_tried(job, mode, screening)


def digest_of(job: Job) -> str:
    """A name for what the job runs."""
    spec = job.spec
    identity = identity_of(
        image=spec.get("image", ""),
        command=spec["command"],
        code=job.code_id or "",
        workdir=spec.get("workdir", DEFAULT_WORKDIR),
        env=spec.get("env", {}),
        mounts=spec.get("mounts", ()),
    )
    return hashlib.sha256(identity.encode()).hexdigest()


def run_for(job: Job, screening: PoolScreening) -> ScreeningRun | None:
    """The screening run of the job in the screening pool as that is now; None where nothing can run one."""
    room = room_of(screening.screening_pool)
    kind = room.type_for(job.request)
    if kind is None:
        return None
    world = min(screening.world, screening.tenant_gpus)
    shape, _ = room.shape_for(job, kind=kind, world=world)
    if shape is None:
        return None
    now, window_s = database_now().timestamp(), screening.rules.window_s
    until = now + screening.max_wait_s
    whole = _whole(job, kind, screening)
    return screening_run_for(job, shape, kind=kind, whole=whole, window_s=window_s, world=world, since=now, until=until)


def _whole(job: Job, kind: str, screening: PoolScreening) -> Choice:
    """The job's choice for the GPU type; what its spec does not name is no more than the screening pool's default."""
    choice, shares = choice_for(job, kind), Shares(screening.screening_pool)
    named = "cpus" in job.spec, "memory" in job.spec
    if all(named):
        return choice
    share = shares.of_one_gpu(kind)
    return replace(
        choice,
        cpus=choice.cpus if named[0] else min(choice.cpus, choice.gpus * share.cpus),
        memory_mib=choice.memory_mib if named[1] else min(choice.memory_mib, choice.gpus * share.memory_mib),
    )


def _of_one_that_is_tried(job: Job, mode: Mode, screening: PoolScreening) -> Outlook:
    digest, where = digest_of(job), screening.screening_pool.name
    trust_days = screening.trust_days if mode is Mode.AUTO else 0.0
    trusted = passed_of_late(tenant_id=job.tenant_id, digest=digest, trust_days=trust_days)
    if trusted is not None:
        why = f"the same passed in job {trusted.job_id} less than {trust_days:g} days ago"
        return Outlook(why, screening, digest=digest, goes_on=ScreeningVerdict.TRUSTED, trusted=trusted)
    if not are_mounted_in(screening.screening_pool, job.spec.get("mounts", []), job.vc):
        why = f"pool {where} does not mount its volumes"
        return Outlook(why, screening, digest=digest, goes_on=ScreeningVerdict.UNTRIED)
    run = run_for(job, screening)
    if run is None:
        why = f"pool {where} has no healthy GPU"
        return Outlook(why, screening, digest=digest, goes_on=ScreeningVerdict.UNTRIED)
    gpus = run.gpus_total
    why = f"on {gpus} GPU{'' if gpus == 1 else 's'} of pool {where}, for {screening.minutes:g} min at most"
    return Outlook(why, screening, run=run, digest=digest)
