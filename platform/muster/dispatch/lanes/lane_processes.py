"""Keeps one process running for the lane of each pool that wants one, as a child of the worker `schedule`."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

from django.db import DatabaseError, InterfaceError, close_old_connections

from muster.dispatch.lanes.lanes import pools_with_lanes

log = logging.getLogger(__name__)

LOOK_EVERY_S = 2.0
_FIRST_DELAY_S, _MAX_DELAY_S, _STEADY_AFTER_S = 1.0, 60.0, 30.0
_GRACE_S = 5.0


@dataclass(slots=True)
class _Lane:
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    delay_s: float = 0.0
    retry_at: float = 0.0


class LaneProcesses(threading.Thread):
    """Starts the processes of lanes, starts again what dies, and ends what no pool wants any more."""

    def __init__(self) -> None:
        super().__init__(name="lane-processes", daemon=True)
        self._stopped = threading.Event()
        self._lanes: dict[int, _Lane] = {}

    def run(self) -> None:
        try:
            while not self._stopped.wait(LOOK_EVERY_S):
                close_old_connections()
                try:
                    self.turn(pools_with_lanes())
                except (DatabaseError, InterfaceError, OSError) as error:
                    log.warning("lanes_not_looked_after error=%s", error)
                finally:
                    close_old_connections()
        finally:
            self.turn(set())

    def stop(self) -> None:
        self._stopped.set()

    def turn(self, wanted: set[int]) -> None:
        """Start and end processes, so that exactly these pools have one."""
        now = time.monotonic()
        for pool_id in sorted(wanted):
            lane = self._lanes.setdefault(pool_id, _Lane())
            runs = lane.process is not None and lane.process.poll() is None
            if runs or now < lane.retry_at:
                continue
            if lane.process is not None:
                log.error("lane_died pool=%s status=%s", pool_id, lane.process.returncode)
                steady = now - lane.started_at >= _STEADY_AFTER_S
                lane.delay_s = _FIRST_DELAY_S if steady else min(_MAX_DELAY_S, 2 * lane.delay_s or _FIRST_DELAY_S)
                lane.process, lane.retry_at = None, now + lane.delay_s
                continue
            words = [sys.executable, "-m", "django", "lane", str(pool_id), "--with", str(os.getpid())]
            lane.process, lane.started_at = subprocess.Popen(words), now
        for pool_id in sorted(self._lanes.keys() - wanted):
            _end(self._lanes.pop(pool_id))


def _end(lane: _Lane) -> None:
    if lane.process is None:
        return
    lane.process.terminate()
    try:
        lane.process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        lane.process.kill()
        lane.process.wait()
