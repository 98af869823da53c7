"""What would become of a job that is not submitted yet: the same decision as a cycle's, nothing stored."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from muster.accounts.models import User
from muster.common.clock import database_now
from muster.dispatch.holds import hold_as_data
from muster.dispatch.settings import config_of, plainer
from muster.dispatch.snapshot import job_view, pool_snapshot
from muster.jobs.services import draft_job
from muster.screening.outlook import Outlook, outlook_of
from scheduler import model
from scheduler.cycle import CycleConfig, Forecast, forecast

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DryRun:
    """The answer to a dry run; `position` is the place the job would get in its virtual cluster's queue, and `outlook`
    whether it is tried elsewhere first: then it waits for that, too."""

    spec: dict[str, Any]
    gpus_total: int
    feasible: bool
    fits_quota: bool
    starts_now: bool
    hold: dict[str, Any] | None
    position: int | None
    outlook: Outlook


def dry_run(*, user: User, data: object) -> DryRun:
    """What would become of the job; raises what submitting it would raise."""
    job = draft_job(user=user, data=data)
    job.submitted_at = job.eligible_at = database_now()
    snapshot = pool_snapshot(job.pool, seed=job.pool_id)
    # One more than any id there is: between equals the youngest job is last.
    newest = max((waiting.id for waiting in snapshot.waiting), default=0)
    hypothetical = job_view(job, job_id=newest + 1, now=snapshot.now)
    answer = _forecast(snapshot, config_of(job.pool), hypothetical)
    outlook = outlook_of(job)
    return DryRun(
        spec=job.spec,
        gpus_total=job.gpus_total,
        feasible=answer.feasible,
        fits_quota=answer.fits_quota,
        starts_now=answer.starts_now and outlook.trial is None,
        hold=hold_as_data(answer.hold) if answer.hold else None,
        position=answer.hold.position if answer.hold else None,
        outlook=outlook,
    )


def _forecast(snapshot: model.Snapshot, config: CycleConfig, job: model.Job) -> Forecast:
    """What a cycle would do; where the pool's plug-ins fail, what it would do after falling back, as it would then."""
    try:
        return forecast(snapshot, config, job)
    # A plug-in may fail in any way. The next cycle tells the operators, so here it is only logged.
    except Exception:
        to = plainer(config)
        if to is None:
            raise
        log.exception("forecast_failed policy=%s", config.policy)
        return _forecast(snapshot, to, job)
