"""`manage.py links`: the process that keeps the links to servers over SSH."""

from __future__ import annotations

import signal
import threading

from django.conf import settings
from django.core.management.base import BaseCommand

from muster.links.keeper import Keeper
from nodeagent.signals import call_on_signals


class Command(BaseCommand):
    """Keeps links until a signal comes."""

    help = "Keeps an SSH connection to each server without an installed agent, and forwards the agents' calls."
    # The database may not have been migrated yet.
    requires_system_checks: list[str] = []

    def handle(self, *args: object, **options: object) -> None:
        """Runs until SIGTERM or SIGINT; agents and jobs go on."""
        stopping = threading.Event()
        call_on_signals((signal.SIGTERM, signal.SIGINT), lambda _: stopping.set())
        Keeper(settings.WEB_URL, stopping).run()
