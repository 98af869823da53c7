"""The progress of servers: their installers, the results, and the times of the next tries."""

from __future__ import annotations

import random
from datetime import timedelta

from django.db import transaction
from django.db.models import F, QuerySet

from muster.common.models import DatabaseNow
from muster.common.secrets import new_secret
from muster.common.statements import Statement
from muster.fleet.models import Node
from muster.fleet.selectors import holding
from muster.links.models import LinkState, Server, Step
from muster.links.services import ask_for_install, record_state
from scheduler.model.lifecycle import NodeAdmin

FIRST_PAUSE_S, MAX_PAUSE_S = 1.0, 300.0
# Jobs stop when their agent was not answered for `stop_after`: where some run, an outage may be as long as nine tenths
# of it, and the next try still comes in time.
TRIES_IN_STOP_AFTER, MIN_LONG_PAUSE_S = 10, 5.0
# Longer than an installation can take: its connection, its upload and the agent's start have limits of their own.
INSTALL_LEASE_S = 600
_MAX_REASON_CHARS = 2000
_IN_USE = Statement("""
SELECT server.node_id, server.version, server.due_at <= clock_timestamp() FROM links_server server
JOIN fleet_node node ON node.id = server.node_id WHERE node.admin <> 'retired' AND server.step = %s
""")


class Failed(Exception):
    """A step that did not go well, with the state and the reason that people are told."""

    def __init__(self, state: LinkState, reason: str) -> None:
        super().__init__(reason)
        self.state = state
        self.reason = plain(reason)


def plain(text: str) -> str:
    """Text from a server as it can be stored and shown: printable, and not too long."""
    kept = "".join(character if character.isprintable() or character == "\n" else "?" for character in text.strip())
    return kept if len(kept) <= _MAX_REASON_CHARS else f"…{kept[1 - _MAX_REASON_CHARS :]}"


def pause_s(tries: int, max_s: float) -> float:
    """Seconds to wait after `tries` failures in a row: doubling up to `max_s`, with jitter."""
    step_s: float = min(max_s, FIRST_PAUSE_S * 2 ** min(tries, 20))
    return step_s * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret


def due(step: Step) -> QuerySet[Server]:
    """The servers for which this is what comes next, and whose time has come."""
    rows = Server.objects.exclude(node__admin=NodeAdmin.RETIRED).select_related("node")
    return rows.filter(step=step, due_at__lte=DatabaseNow()).order_by("due_at")


def in_use(step: Step) -> list[tuple[int, int, bool]]:
    """The servers for which this is what comes next: id, version, and whether their time has come."""
    return [(pk, version, is_due) for pk, version, is_due in _IN_USE.rows(step.value)]


def take_install(server_id: int) -> Server | None:
    """The server, taken for this worker; None if another worker installs it or no install is due."""
    token = new_secret("t")[:43]
    taken = (
        Server.objects.exclude(node__admin=NodeAdmin.RETIRED)
        .filter(pk=server_id, step=Step.INSTALL, due_at__lte=DatabaseNow())
        .update(token=token, due_at=DatabaseNow() + timedelta(seconds=INSTALL_LEASE_S))
    )
    return Server.objects.select_related("node").get(pk=server_id) if taken else None


def installed(server: Server) -> None:
    """The agent runs; what comes next is the link."""
    rows = Server.objects.filter(pk=server.pk, version=server.version, token=server.token)
    rows.update(step=Step.LINK, state=LinkState.CONNECTING, since=DatabaseNow(), due_at=DatabaseNow(), token="")


def linked(server: Server) -> bool:
    """The link is open; False if the server was edited meanwhile."""
    return _move(server, LinkState.UP, "", step=Step.LINK)


def steady(server: Server) -> None:
    """The link has held for a while, so the next failure is a first one."""
    Server.objects.filter(pk=server.pk, version=server.version).update(tries=0)


def needs_install(server: Server, reason: str) -> None:
    """The server has no agent that runs as it should: an installer has to go there, soon or after a pause."""
    if _move(server, LinkState.NOT_RUNNING, reason, step=Step.INSTALL, failed=True):
        ask_for_install(server.pk)


def failed(server: Server, failure: Failed) -> None:
    """The step did not go well; it comes again after a pause."""
    _move(server, failure.state, failure.reason, step=None, failed=True)


def forget_open_links() -> None:
    """Forget the links of an earlier process."""
    Server.objects.filter(step=Step.LINK).update(due_at=DatabaseNow())
    Server.objects.filter(state=LinkState.UP).update(state=LinkState.CONNECTING, since=DatabaseNow())


def _longest_pause_s(server: Server) -> float:
    held = holding(Node.objects.filter(pk=server.pk))
    stop_after_s = held.values_list("pool__stop_after_s", flat=True).first()
    if stop_after_s is None:
        return MAX_PAUSE_S
    return min(MAX_PAUSE_S, max(MIN_LONG_PAUSE_S, stop_after_s / TRIES_IN_STOP_AFTER))


def _move(server: Server, state: LinkState, reason: str, *, step: Step | None, failed: bool = False) -> bool:
    with transaction.atomic():
        servers = Server.objects.select_for_update(no_key=True, of=("self",)).select_related("node")
        row = servers.filter(pk=server.pk).first()
        if row is None or (row.version, row.token) != (server.version, server.token):
            return False
        rows = Server.objects.filter(pk=row.pk)
        if step is not None:
            rows.update(step=step)
        if failed:
            pause = timedelta(seconds=pause_s(row.tries, _longest_pause_s(row)))
            rows.update(tries=F("tries") + 1, due_at=DatabaseNow() + pause, token="")
        if (row.state, row.reason) != (state, reason):
            rows.update(reason=reason)
        if row.state != state:
            rows.update(state=state, since=DatabaseNow())
            record_state(row, state)
    return True
