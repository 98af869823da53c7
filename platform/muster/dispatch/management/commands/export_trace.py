"""Write the platform's own history as a trace: `manage.py export_trace [--pool P] [--since T] [--anonymous] OUT`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from muster.dispatch.explain.export import trace_lines
from muster.fleet.models import Pool


class Command(BaseCommand):
    help = "Write all finished jobs as a trace in the format `muster`, which the simulator reads."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("out", type=Path, help="The file to write; it must not exist yet.")
        parser.add_argument("--pool", help="Only jobs of this pool.")
        parser.add_argument("--since", help="Only jobs submitted at or after this moment: 2026-12-01, or with a time.")
        parser.add_argument("--anonymous", action="store_true", help="Stable pseudonyms for users and names of jobs.")

    def handle(self, *args: Any, **options: Any) -> None:
        pool = Pool.objects.filter(name=options["pool"]).first()
        if options["pool"] and pool is None:
            raise CommandError(f"there is no pool {options['pool']}")
        lines = trace_lines(pool=pool, since=_moment(options["since"]), anonymous=options["anonymous"])
        count = -1  # without the header
        try:
            with options["out"].open("x", encoding="utf-8") as out:
                for line in lines:
                    out.write(f"{line}\n")
                    count += 1
        except OSError as error:
            raise CommandError(f"{options['out']} cannot be written: {error.strerror}") from error
        self.stdout.write(f"{count} jobs written to {options['out']}")


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(f"{text!r} is not a time: write 2026-12-01 or 2026-12-01T08:00+00:00") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
