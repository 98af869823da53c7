"""`manage.py links`: the process that keeps the links to servers over SSH."""

from __future__ import annotations

import os
import signal
import threading

from django.conf import settings
from django.core.management.base import BaseCommand

from muster.links.keeper import Keeper


class Command(BaseCommand):
    """Keeps links until a signal comes."""

    help = "Keeps an SSH connection to each server without an installed agent, and forwards the agents' calls."
    # The database may not have been migrated yet.
    requires_system_checks: list[str] = []

    def handle(self, *args: object, **options: object) -> None:
        """Runs until SIGTERM or SIGINT; agents and jobs go on."""
        stopping = threading.Event()
        come, write_end = os.pipe()
        os.set_blocking(write_end, False)
        threading.Thread(target=_set_after_a_byte, args=(come, stopping), daemon=True).start()
        # A handler in Python must not set the event: it may have interrupted a wait for it, which holds its lock. So
        # what counts is the byte that the interpreter's own handler writes.
        signal.set_wakeup_fd(write_end)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        Keeper(settings.WEB_URL, stopping).run()


def _set_after_a_byte(come: int, stopping: threading.Event) -> None:
    os.read(come, 1)
    stopping.set()
