"""Run a stored cycle again: `manage.py replay CYCLE`."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from muster.dispatch.cycles import replay
from muster.dispatch.models import Cycle
from scheduler.model.plan import Plan


class Command(BaseCommand):
    """Decide again from a stored snapshot, and compare with the stored plan."""

    help = "Run the stored snapshot of a cycle through the present code; exits with 1 if the plan differs."

    def add_arguments(self, parser: CommandParser) -> None:
        """One argument: the number of the cycle."""
        parser.add_argument("cycle", type=int)

    def handle(self, *args: Any, **options: Any) -> None:
        """Compare the plans and print the result."""
        cycle = Cycle.objects.filter(pk=options["cycle"]).first()
        if cycle is None:
            raise CommandError(f"there is no cycle {options['cycle']}")
        try:
            stored, again = replay(cycle)
        except ValueError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(_summary("stored", stored))
        self.stdout.write(_summary("again ", again))
        if stored != again:
            for place in sorted(set(stored.places) ^ set(again.places), key=lambda place: place.job_id):
                self.stdout.write(f"  differs: {place}")
            for preempt in sorted(set(stored.preempts) ^ set(again.preempts), key=lambda preempt: preempt.job_id):
                self.stdout.write(f"  differs: {preempt}")
            raise CommandError("the plans differ")
        self.stdout.write(self.style.SUCCESS(f"cycle {cycle.pk}: the same plan"))


def _summary(name: str, plan: Plan) -> str:
    jobs = ", ".join(str(place.job_id) for place in plan.places) or "none"
    stopped = f", {len(plan.preempts)} stopped" if plan.preempts else ""
    return f"{name}: {len(plan.places)} placed ({jobs}){stopped}, {len(plan.holds)} held"
