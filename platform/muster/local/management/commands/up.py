"""`manage.py up`: the platform alone, on this machine, until Ctrl-C."""

from __future__ import annotations

from argparse import ArgumentParser

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from rich.console import Console

from muster.local.places import LocalError
from muster.local.stack import Steps, running_stack


class Command(BaseCommand):
    help = "Starts Postgres, Valkey, web, workers and links on this machine, and keeps them running until Ctrl-C."
    # The processes bring their own checks; the database may not have been made yet.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--port", type=int, help="default: $PORT, else the first free one from 8000 on")

    def handle(self, *args: object, **options: object) -> None:
        port = options["port"]
        steps = Steps(Console())
        try:
            with running_stack(settings.STATE_FOLDER, port=port if isinstance(port, int) else None, steps=steps) as (
                site,
                supervisor,
            ):
                steps.console.print(f"\nMuster is at [bold]{site.public_url}[/]. Ctrl-C stops it.", highlight=False)
                supervisor.wait()
        except LocalError as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            return
