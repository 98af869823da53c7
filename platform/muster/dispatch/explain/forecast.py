"""The result of a dry run: the decision of a cycle for a job that is not submitted, without storing anything."""

from __future__ import annotations

import logging
from collections.abc import Collection
from copy import copy
from dataclasses import dataclass

from muster.accounts.models import User
from muster.arrays.services import draft_array
from muster.common.clock import database_now
from muster.dispatch.config.planners import planner_of
from muster.dispatch.config.settings import config_of, simpler_config
from muster.dispatch.lanes import targets
from muster.dispatch.snapshot.kept import WaitingRows
from muster.dispatch.snapshot.snapshot import job_view, planner_snapshot
from muster.fleet.models import Pool
from muster.jobs.attempt.estimates import estimate_jobs
from muster.jobs.models import Job
from muster.jobs.services import draft_job
from muster.jobs.spec.requests import Size, sizes_of
from muster.jobs.spec.spec import parse_spec
from muster.jobs.submit.awaited import begin_of, hold_of_draft
from muster.jobs.submit.desk import Desk
from muster.jobs.submit.images import RuntimeOutlook, runtime_outlook
from muster.screening.outlook import Outlook, outlook_of
from muster.sweeps.services import draft_sweep
from scheduler import model
from scheduler.engine.cycle import CycleConfig, Forecast, forecast
from scheduler.engine.target import Target
from scheduler.model.lifecycle import Stage
from scheduler.model.plan import Hold

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DryRun:
    """The answer to a dry run of a job that is not stored; `screening` is that of its screening run, if any."""

    job: Job
    sizes: list[Size]
    feasible: bool
    fits_quota: bool
    starts_now: bool
    hold: Hold | None
    position: int | None
    outlook: Outlook
    screening: Forecast | None
    runtime: RuntimeOutlook


def dry_run(*, user: User, data: object) -> DryRun:
    """The result that the job, or the first member of the group, would get; raises what submitting it would raise."""
    desk = Desk(user)
    if isinstance(data, dict) and "array" in data:
        job = draft_array(user=user, data=data, desk=desk).job
    elif isinstance(data, dict) and "sweep" in data:
        job = draft_sweep(user=user, data=data, desk=desk).job
    else:
        job = draft_job(user=user, data=data, desk=desk)
    estimate_jobs([job])
    job.submitted_at = database_now()
    job.eligible_at = begin_of(parse_spec(job.spec), job.submitted_at) or job.submitted_at
    answer, waits = _forecast_of(job, job.pool), hold_of_draft(job)
    outlook = outlook_of(job)
    return DryRun(
        job=job,
        sizes=sizes_of(job.spec, job.request, desk.shares(job.pool)),
        feasible=answer.feasible,
        fits_quota=answer.fits_quota,
        starts_now=answer.starts_now and outlook.run is None and waits is None,
        hold=answer.hold if waits is None else Hold(0, waits["reason"], waits["detail"], {}, tuple(waits["helps"]), 0),
        position=answer.hold.position if answer.hold and waits is None else None,
        outlook=outlook,
        screening=_forecast_of_screening(job, outlook),
        runtime=runtime_outlook(parse_spec(job.spec), job.pool),
    )


def _forecast_of_screening(job: Job, outlook: Outlook) -> Forecast | None:
    """The forecast of a cycle of the screening pool for the job; None if it is not screened."""
    if outlook.screening is None or outlook.run is None:
        return None
    screened = copy(job)
    screened.stage, screened.screening = Stage.SCREENING, outlook.run.stored()
    return _forecast_of(screened, outlook.screening.screening_pool, screening_of=(job.tenant_id,))


def _forecast_of(job: Job, pool: Pool, *, screening_of: Collection[int] = ()) -> Forecast:
    planner = planner_of(pool.pk, job.vc_id)
    rows = WaitingRows(pool.pk)  # a pool may have ten thousand waiting jobs, of which few have changed since
    snapshot = planner_snapshot(pool, planner, seed=pool.pk, screening_of=screening_of, rows=rows)
    # Larger than any id: among equals the youngest job is last.
    newest = max((waiting.id for waiting in snapshot.waiting), default=0)
    view = job_view(job, job_id=newest + 1, now=snapshot.now)
    if planner is not None:
        return _forecast(snapshot, config_of(pool, planner), view)
    lane = targets.carrying(pool)
    latest = targets.latest(lane)
    target = None if latest is None else targets.stored(latest)
    return _forecast(snapshot, targets.filling_config(pool, lane), view, target)


def _forecast(snapshot: model.Snapshot, config: CycleConfig, job: model.Job, target: Target | None = None) -> Forecast:
    """The decision of a cycle, which solves nothing that a lane solves; if plug-ins fail, that of the fallback."""
    try:
        return forecast(snapshot, config, job, target)
    # A plug-in may fail in any way. The next cycle notifies the operators, so here the failure is only logged.
    except Exception:
        to = simpler_config(config)
        if to is None:
            raise
        log.exception("forecast_failed policy=%s", config.policy)
        return _forecast(snapshot, to, job)
