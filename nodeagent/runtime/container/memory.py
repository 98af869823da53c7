"""Kills by the kernel for want of memory, read from a container's control group.

Engines tell it too, but not each of them always. The counter is opened while the container runs: with it in hand, the
group's path need not be found again at the end.
"""

from __future__ import annotations

import os
from typing import Optional

_V1, _V2 = "/sys/fs/cgroup/memory{}/memory.oom_control", "/sys/fs/cgroup{}/memory.events"


def open_oom_counter(pid: int) -> Optional[int]:
    """A descriptor of the counter of a process's memory group; None where there is none to be read."""
    try:
        with open("/proc/{}/cgroup".format(pid), encoding="utf-8", errors="replace") as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except (FileNotFoundError, ProcessLookupError):
        return None
    paths = [_V1.format(path) for _, names, path in lines if "memory" in names.split(",")]
    for path in [*paths, *(_V2.format(path) for number, _, path in lines if number == "0")]:
        try:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
    return None


def oom_kills(counter: Optional[int]) -> int:
    """The number of processes that were killed; 0 too where the group is gone already."""
    if counter is None:
        return 0
    try:
        words = os.pread(counter, 4096, 0).split()
    except OSError:
        return 0
    return int(words[words.index(b"oom_kill") + 1]) if b"oom_kill" in words else 0
