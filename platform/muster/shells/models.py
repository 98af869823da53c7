"""Shells in running jobs: who, when, where, from where and how it ended. What was typed and shown is stored nowhere."""

from __future__ import annotations

from enum import StrEnum

from django.conf import settings
from django.db import models
from django.db.models import Q

from muster.accounts.models import ApiToken
from muster.common.models import DatabaseNow, check, choices, index, one_of, set_when
from muster.jobs.models import Allocation, Job
from scheduler.model.lifecycle import SHELL_LIVE, ShellState


class ShellReason(StrEnum):
    """The reason why a shell was closed."""

    EXITED = "exited"
    NOT_STARTED = "not_started"
    NOT_OPENED = "not_opened"
    LEFT = "left"
    CLIENT_LOST = "client_lost"
    AGENT_LOST = "agent_lost"
    JOB_ENDED = "job_ended"
    IDLE = "idle"
    TIME_LIMIT = "time_limit"
    ACCESS_ENDED = "access_ended"
    SWITCHED_OFF = "switched_off"


class Shell(models.Model):
    """One shell. Its own token opens this one only, and only its digest is stored."""

    id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="shells")
    allocation = models.ForeignKey(Allocation, on_delete=models.CASCADE, related_name="shells", db_index=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="shells", db_index=False)
    api_token = models.ForeignKey(
        ApiToken, on_delete=models.SET_NULL, null=True, related_name="+", help_text="What the user asked for it with."
    )
    address = models.GenericIPAddressField(null=True, help_text="Where the user asked from.")
    state = models.CharField(max_length=10, choices=choices(ShellState), default=ShellState.REQUESTED)
    reason = models.CharField(max_length=20, choices=choices(ShellReason), default="", blank=True)
    detail = models.CharField(max_length=500, default="", blank=True)
    exit_code = models.IntegerField(null=True)
    token_digest = models.CharField(max_length=64)
    epoch = models.BigIntegerField(null=True, help_text="The run of the agent that opened it.")
    command = models.JSONField(default=list, help_text="Forgotten when it has ended.")
    terminal = models.BooleanField()
    term = models.CharField(max_length=64)
    rows = models.PositiveSmallIntegerField()
    cols = models.PositiveSmallIntegerField()
    requested_at = models.DateTimeField(db_default=DatabaseNow())
    opened_at = models.DateTimeField(null=True)
    closed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            one_of("state", ShellState, name="shell_state_known"),
            check(
                "shell_closed_has_reason",
                Q(reason="", state__in=sorted(SHELL_LIVE)) | Q(reason__in=sorted(ShellReason), state=ShellState.CLOSED),
            ),
            set_when("closed_at", "shell_closed_has_time", state=ShellState.CLOSED),
            check("shell_open_has_agent", ~Q(state=ShellState.OPEN) | Q(opened_at__isnull=False, epoch__isnull=False)),
        ]
        indexes = [
            index("shell_live", ["allocation"], Q(state__in=sorted(SHELL_LIVE))),
            index("shell_live_of_user", ["user"], Q(state__in=sorted(SHELL_LIVE))),
        ]

    def __str__(self) -> str:
        return f"shell {self.pk} in job {self.job_id}"
