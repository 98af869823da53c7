"""Ends shells whose job or access has ended, which are switched off, or whose client or agent is silent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from django.db import DatabaseError

from muster.common.asgi import in_thread
from muster.common.clock import database_now
from muster.common.errors import MusterError
from muster.events.hub import hub
from muster.events.redis import ACCESS_CHANNEL
from muster.shells.models import Shell
from muster.shells.relay import Closed, relays
from muster.shells.selectors import Silence, any_live, live_shells, silences_of, why_over
from muster.shells.transitions import move_shell
from scheduler.model.lifecycle import ShellState

log = logging.getLogger(__name__)

LOOK_EVERY_S = 2.0
PAUSE_S = 0.1


async def watch() -> None:
    """Look every few seconds, and when a user's access has changed, until cancelled."""
    with hub.waiter(ACCESS_CHANNEL) as waiter:
        while True:
            await waiter.wait(LOOK_EVERY_S)
            try:
                swept = await in_thread(sweep, relays.silences())
                relays.take(swept.closed, swept.live)
            except (MusterError, DatabaseError) as error:  # the latter before the database is migrated
                log.warning("shells_not_watched error=%s", error)
            await asyncio.sleep(PAUSE_S)


@dataclass(frozen=True, slots=True)
class Swept:
    """The result of a look at shells: the ends of closed ones, and the live ones."""

    closed: dict[int, Closed]
    live: list[Shell]


def sweep(silences: Mapping[int, Silence]) -> Swept:
    """Close what must end."""
    if not (silences or any_live()):
        return Swept({}, [])
    found = list(live_shells())
    now = database_now() if found else None
    live = []
    for shell in found:
        over = why_over(shell, now, silences_of(silences, shell)) if now is not None else None
        if over is None:
            live.append(shell)
            continue
        reason, detail = over
        move_shell(shell, ShellState.CLOSED, actor="platform", reason=reason, detail=detail)
    ended = Shell.objects.filter(pk__in=silences.keys() - {shell.pk for shell in live})
    return Swept({shell.pk: how for shell in ended if (how := Closed.of(shell)) is not None}, live)
