"""`manage.py recount_usage`: rows of attempts or claims were changed by hand, or a type of GPU has another name."""

from __future__ import annotations

from django.core.management.base import BaseCommand

from muster.usage.totals import uncount_all


class Command(BaseCommand):
    """Has all usage counted anew."""

    help = "Empties the sums by days that reports of usage read. Workers make them anew; reports are right meanwhile."

    def handle(self, *args: object, **options: object) -> None:
        """All jobs that have ended."""
        self.stdout.write(f"{uncount_all()} jobs will be counted anew.")
