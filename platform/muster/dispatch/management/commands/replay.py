"""Run a stored cycle again, or write its snapshot: `manage.py replay CYCLE [FILE]`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from muster.dispatch.cycles import replay, stored_snapshot
from muster.dispatch.models import Cycle
from scheduler.engine.cycle import CycleConfig
from scheduler.model.codec import from_json
from scheduler.model.plan import Plan
from scheduler.sim.start import start_to_json


class Command(BaseCommand):
    help = "Run the stored snapshot of a cycle through the present code; exits with 1 if the plan differs."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("cycle", type=int)
        parser.add_argument(
            "out", type=Path, nargs="?", help="Write the snapshot to this new file, for muster simulate --from."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        cycle = Cycle.objects.filter(pk=options["cycle"]).first()
        if cycle is None:
            raise CommandError(f"there is no cycle {options['cycle']}")
        if options["out"] is not None:
            _write(cycle, options["out"])
            self.stdout.write(f"the pool as it was at cycle {cycle.pk} written to {options['out']}")
            return
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


def _write(cycle: Cycle, out: Path) -> None:
    if cycle.snapshot is None:
        raise CommandError(f"cycle {cycle.pk} changed nothing, so its snapshot is not stored")
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(start_to_json(stored_snapshot(cycle), from_json(CycleConfig, cycle.config)))
    except OSError as error:
        raise CommandError(f"{out} cannot be written: {error.strerror}") from error


def _summary(name: str, plan: Plan) -> str:
    jobs = ", ".join(str(place.job_id) for place in plan.places) or "none"
    stopped = f", {len(plan.preempts)} stopped" if plan.preempts else ""
    return f"{name}: {len(plan.places)} placed ({jobs}){stopped}, {len(plan.holds)} held"
