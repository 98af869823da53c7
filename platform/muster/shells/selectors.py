"""Shells that should exist, and those that must end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import QuerySet

from muster.common.statements import Statement
from muster.jobs.models import Job
from muster.jobs.selectors import visible_jobs
from muster.shells.models import Shell, ShellReason
from muster.tenants.selectors import is_manager
from scheduler.model.lifecycle import SHELL_LIVE, AllocationState, AttemptState, Desired, ShellState

NOT_OPENED_AFTER = timedelta(seconds=30)
CLIENT_LOST_AFTER_S = 30.0
AGENT_LOST_AFTER_S = 60.0
_ANY_LIVE = Statement("SELECT EXISTS (SELECT FROM shells_shell WHERE state = ANY(%s::text[]))")


@dataclass(frozen=True, slots=True)
class Silence:
    """For how many seconds nothing was heard: of the client, of the agent, and of either any bytes."""

    client_s: float = 0.0
    agent_s: float = 0.0
    bytes_s: float = 0.0


def live_shells() -> QuerySet[Shell]:
    """The shells that are not closed, with all that decides whether they go on."""
    return Shell.objects.filter(state__in=SHELL_LIVE).select_related(
        "job__pool", "user", "api_token", "allocation__attempt"
    )


def any_live() -> bool:
    """Whether any shell is not closed."""
    ((is_any,),) = _ANY_LIVE.rows(sorted(SHELL_LIVE))
    return bool(is_any)


def why_over(shell: Shell, now: datetime, silence: Silence) -> tuple[ShellReason, str] | None:
    """The reason why a live shell must end, also in words; None if it goes on."""
    return _by_its_job(shell) or _by_its_user(shell, now) or _by_time(shell, now, silence)


def silences_of(silences: Mapping[int, Silence], shell: Shell) -> Silence:
    """The silence of the shell; unknown after a start of the web process."""
    return silences.get(shell.pk, Silence())


def _by_its_job(shell: Shell) -> tuple[ShellReason, str] | None:
    allocation, job = shell.allocation, shell.job
    runs = allocation.attempt.state in {AttemptState.STARTING, AttemptState.RUNNING}
    if allocation.state != AllocationState.ACTIVE or not runs or job.desired != Desired.RUN:
        return ShellReason.JOB_ENDED, f"job {job.pk} has ended, or is being stopped"
    if not job.pool.shells:
        return ShellReason.SWITCHED_OFF, f"shells were switched off in pool {job.pool.name}"
    return None


def _by_its_user(shell: Shell, now: datetime) -> tuple[ShellReason, str] | None:
    user, token = shell.user, shell.api_token
    if not user.is_active:
        return ShellReason.ACCESS_ENDED, "the account was disabled"
    if token is None or token.revoked_at is not None or token.expires_at <= now:
        return ShellReason.ACCESS_ENDED, "the API token was revoked, or its time is over"
    if not _may_act(shell):
        return ShellReason.ACCESS_ENDED, f"job {shell.job_id} is no longer yours to act on"
    return None


def _may_act(shell: Shell) -> bool:
    job: Job = shell.job
    owns = job.owner_id == shell.user_id and visible_jobs(shell.user).filter(pk=job.pk).exists()
    return owns or is_manager(shell.user, job.tenant_id)


def _by_time(shell: Shell, now: datetime, silence: Silence) -> tuple[ShellReason, str] | None:
    if shell.state == ShellState.REQUESTED and now - shell.requested_at > NOT_OPENED_AFTER:
        return ShellReason.NOT_OPENED, "the agent of its node did not open it: it is out of reach"
    if now - shell.requested_at > settings.SHELL_LONGEST:
        return ShellReason.TIME_LIMIT, f"a shell may last {settings.SHELL_LONGEST}"
    if timedelta(seconds=silence.bytes_s) > settings.SHELL_IDLE:
        return ShellReason.IDLE, f"nothing was typed or written for {settings.SHELL_IDLE}"
    if silence.client_s > CLIENT_LOST_AFTER_S:
        return ShellReason.CLIENT_LOST, "its client has stopped asking for output"
    if shell.state == ShellState.OPEN and silence.agent_s > AGENT_LOST_AFTER_S:
        return ShellReason.AGENT_LOST, "the agent of its node was silent for too long"
    return None
