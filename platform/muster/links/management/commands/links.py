"""`manage.py links`: the process that keeps the links to servers over SSH."""

from __future__ import annotations

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
        # Blocked for every thread that follows, and waited for in one: a handler may interrupt a wait for the event.
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))
        threading.Thread(target=_set_on_signal, args=(stopping,), daemon=True).start()
        Keeper(settings.WEB_URL, stopping).run()


def _set_on_signal(stopping: threading.Event) -> None:
    signal.sigwait((signal.SIGTERM, signal.SIGINT))
    stopping.set()
