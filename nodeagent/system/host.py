"""The host's hardware and load, read from /proc."""

from __future__ import annotations

import os
import socket
from typing import Dict, Optional, Tuple
from urllib.parse import urlsplit

from nodeagent.protocol.messages import HostSample


def memory_mib(limit: Optional[int]) -> int:
    """The memory that this agent offers to jobs: `limit`, or that of the machine without what it keeps."""
    total = _memory_kib()["MemTotal"] >> 10
    return limit or total - kept_mib(total)


def kept_mib(total_mib: int) -> int:
    """The memory that is kept for the agent and the system: 2 %, at least 1 GiB, of a small machine a quarter."""
    return min(total_mib // 4, max(1024, total_mib // 50))


def disk_mib(path: str) -> int:
    """Free space for us on the disk of `path`, in MiB."""
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize >> 20


def address_towards(url: str) -> str:
    """The address of this machine that the platform at `url` would see; loopback when that cannot be known."""
    parts = urlsplit(url)
    try:
        family, kind, number, _, target = socket.getaddrinfo(parts.hostname, parts.port or 443, type=socket.SOCK_DGRAM)[
            0
        ]
        with socket.socket(family, kind, number) as probe:
            probe.connect(target)  # sends nothing: it only chooses a route
            return str(probe.getsockname()[0])
    except OSError:
        return "127.0.0.1"


class HostMeter:
    """Reads the host; the processor share is that since the last reading."""

    def __init__(self) -> None:
        self._before = _cpu_ticks()

    def sample(self) -> HostSample:
        """The host's load now."""
        busy, total = _cpu_ticks()
        spent = total - self._before[1]
        share = (busy - self._before[0]) / spent if spent > 0 else None
        self._before = (busy, total)
        memory = _memory_kib()
        return HostSample(
            cpu_percent=None if share is None else round(100.0 * share, 1),
            memory_used_mib=(memory["MemTotal"] - memory.get("MemAvailable", memory["MemFree"])) >> 10,
            load1=os.getloadavg()[0],
        )


def _cpu_ticks() -> Tuple[int, int]:
    with open("/proc/stat", encoding="ascii") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def _memory_kib() -> Dict[str, int]:
    wanted = ("MemTotal", "MemFree", "MemAvailable")
    found: Dict[str, int] = {}
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            name, _, rest = line.partition(":")
            if name in wanted:
                found[name] = int(rest.split()[0])
            if len(found) == len(wanted):
                break
    return found


def cpus(limit: Optional[int]) -> int:
    """The processors that this agent offers: `limit`, or all that it may use."""
    return limit or len(os.sched_getaffinity(0))
