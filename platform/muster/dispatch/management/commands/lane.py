"""Run the lane of a pool: `manage.py lane POOL_ID`. The worker `schedule` starts it where a pool wants one."""

from __future__ import annotations

import signal
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from muster.dispatch.lanes.lanes import PoolLane
from muster.dispatch.lanes.parent import end_with
from muster.fleet.models import Pool


class Command(BaseCommand):
    help = "Solve the decisions of one pool in this process, until it is stopped or the pool has no lane."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("pool", type=int)
        parser.add_argument("--with", type=int, dest="parent", help="End with this parent process.")

    def handle(self, *args: Any, **options: Any) -> None:
        if not Pool.objects.filter(pk=options["pool"]).exists():
            raise CommandError(f"there is no pool {options['pool']}")
        lane = PoolLane(options["pool"])
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: lane.stop())
        if options["parent"] is not None:
            end_with(options["parent"], signal.SIGTERM)
        lane.run()
