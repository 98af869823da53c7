"""Processor time: what a system costs on a machine whose clock also shows other people's work."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from muster.local import processes

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Reading:
    """Seconds of processor time so far: this process and all below it, and the whole machine busy and in all."""

    ours_s: float
    busy_s: float
    machine_s: float

    def since(self, earlier: Reading) -> Reading:
        """The differences between two readings."""
        return Reading(self.ours_s - earlier.ours_s, self.busy_s - earlier.busy_s, self.machine_s - earlier.machine_s)

    @property
    def others_share(self) -> float:
        """The share of the machine's CPU time that other processes used."""
        return max(0.0, self.busy_s - self.ours_s) / self.machine_s if self.machine_s else 0.0


def read_processor() -> Reading:
    """The reading now. Orphans of ours must come to this process, or the time of those that ended is lost."""
    own = os.times()
    below = sum(parse_stat(_stat(pid)) for pid in processes.descendants(os.getpid()))
    busy_s, machine_s = parse_machine(Path("/proc/stat").read_text())
    return Reading(own.user + own.system + own.children_user + own.children_system + below, busy_s, machine_s)


def read_seconds(pid: int) -> float:
    """Seconds of processor time of one process so far; 0 for one that is gone."""
    return parse_stat(_stat(pid))


def parse_stat(text: str) -> float:
    """Seconds that a process has used, with those of the children it has waited for; 0 for one that is gone."""
    if not text:
        return 0.0
    # The name before may hold spaces and brackets. Behind it, the twelfth to the fifteenth field are the times.
    fields = text[text.rindex(")") + 2 :].split()
    return sum(int(ticks) for ticks in fields[11:15]) / _TICKS_PER_S


def parse_machine(text: str) -> tuple[float, float]:
    """Seconds that all processors together were busy, and were there at all."""
    # user nice system idle iowait irq softirq steal; guest time is in user already.
    ticks = [int(word) for word in text.splitlines()[0].split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / _TICKS_PER_S, sum(ticks) / _TICKS_PER_S


def _stat(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
