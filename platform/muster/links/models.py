"""Servers that are reached over SSH, and how it stands with the link to each."""

from __future__ import annotations

from enum import StrEnum

from django.db import models
from django.db.models import Q

from muster.common.models import DatabaseNow, check, choices, index, one_of
from muster.fleet.models import Node


class Step(StrEnum):
    """The next step for a server."""

    INSTALL = "install"
    LINK = "link"


class LinkState(StrEnum):
    """The state of a link; `reason` has details of everything after the first three."""

    INSTALLING = "installing"
    CONNECTING = "connecting"
    UP = "up"
    LOST = "lost"
    NAME_UNRESOLVED = "name_unresolved"
    UNREACHABLE = "unreachable"
    HOST_KEY_UNKNOWN = "host_key_unknown"
    HOST_KEY_CHANGED = "host_key_changed"
    KEY_UNREADABLE = "key_unreadable"
    AUTHENTICATION_REFUSED = "authentication_refused"
    NO_PYTHON = "no_python"
    NO_SPACE = "no_space"
    NOT_WRITABLE = "not_writable"
    UPLOAD_FAILED = "upload_failed"
    START_FAILED = "start_failed"
    NOT_RUNNING = "not_running"
    BROKEN = "broken"


class Server(models.Model):
    """The SSH access to a node.

    `version` is raised by every edit, so that who has read the row before changes nothing after it. An installer holds
    `token` until `due_at`.
    """

    node = models.OneToOneField(Node, on_delete=models.CASCADE, primary_key=True, related_name="server")
    host = models.CharField(max_length=253)
    port = models.PositiveIntegerField(default=22)
    user = models.CharField(max_length=64)
    host_key = models.TextField(blank=True, default="", help_text="What the server must show: its key or the SHA256.")
    sealed_key = models.TextField(editable=False)
    sealed_credential = models.TextField(editable=False)
    public_key = models.TextField(editable=False, help_text="What the server must list in authorized_keys.")
    folder = models.CharField(max_length=200, blank=True, default="")
    options = models.CharField(max_length=500, blank=True, default="")
    version = models.BigIntegerField(default=1)

    step = models.CharField(max_length=10, choices=choices(Step), default=Step.INSTALL)
    state = models.CharField(max_length=24, choices=choices(LinkState), default=LinkState.INSTALLING)
    reason = models.TextField(blank=True, default="")
    since = models.DateTimeField(db_default=DatabaseNow())
    tries = models.PositiveIntegerField(default=0)
    due_at = models.DateTimeField(db_default=DatabaseNow())
    token = models.CharField(max_length=43, blank=True, default="")

    class Meta:
        verbose_name = "server over SSH"
        verbose_name_plural = "servers over SSH"
        constraints = [
            one_of("step", Step, name="server_step_known"),
            one_of("state", LinkState, name="server_state_known"),
            check("server_port_in_range", Q(port__gte=1, port__lte=65_535)),
            # What ssh would read as an option, and what a shell would, never gets into a row.
            check("server_host_plain", Q(host__regex=r"^[A-Za-z0-9_:][A-Za-z0-9_.:-]*$")),
            check("server_user_plain", Q(user__regex=r"^[A-Za-z0-9_][A-Za-z0-9_.@-]*$")),
        ]
        indexes = [index("server_due", ["step", "due_at"])]

    def __str__(self) -> str:
        return str(self.node)
