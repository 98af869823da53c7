"""Ends the shells that must end: by their job, their user, a switch, or because nobody is there any more."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from django.db import DatabaseError

from muster.common.asgi import in_thread
from muster.common.clock import database_now
from muster.common.errors import MusterError
from muster.shells.models import Shell
from muster.shells.relay import Closed, relays
from muster.shells.selectors import Silence, live_shells, silences_of, why_over
from muster.shells.transitions import move_shell
from scheduler.lifecycle import ShellState

log = logging.getLogger(__name__)

LOOK_EVERY_S = 2.0


async def watch() -> None:
    """Look every few seconds until cancelled."""
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        try:
            relays.take(await in_thread(sweep, relays.silences()))
        except (MusterError, DatabaseError) as error:  # the latter before the database is migrated
            log.warning("shells_not_watched error=%s", error)


def sweep(silences: Mapping[int, Silence]) -> dict[int, Closed]:
    """Close what must end; of the shells that were asked about, those that are closed, by whomever."""
    live = list(live_shells())
    now = database_now() if live else None
    going_on = set()
    for shell in live:
        over = why_over(shell, now, silences_of(silences, shell)) if now is not None else None
        if over is None:
            going_on.add(shell.pk)
            continue
        reason, detail = over
        move_shell(shell, ShellState.CLOSED, actor="platform", reason=reason, detail=detail)
    ended = Shell.objects.filter(pk__in=silences.keys() - going_on)
    return {shell.pk: how for shell in ended if (how := Closed.of(shell)) is not None}
