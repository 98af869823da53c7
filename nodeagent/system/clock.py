"""The clocks of the agent: boot time for every deadline, wall time for information only."""

from __future__ import annotations

import time


def boottime() -> float:
    """Seconds since the machine booted, suspended time included; the same for all processes of one boot."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """The kernel's name of this boot."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
