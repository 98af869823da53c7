"""Bytes that processes have read, written and received so far, and the page cache that the kernel keeps for them.

Everything is from /proc, and from the control group where a job has one of its own. Unknown figures are None: those for
files of another user's process, a network that the job shares with its host, a page cache that has no account.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Dict, Iterable, Optional, Tuple

_GROUPS = "/sys/fs/cgroup"


@dataclass(frozen=True)
class Io:
    """Bytes that processes, and children that they have waited for, made disks read and write."""

    read_bytes: int
    write_bytes: int


def io_of(pids: Iterable[int]) -> Optional[Io]:
    """The sum over the processes; None if one of them keeps it to itself."""
    read_bytes = write_bytes = 0
    for pid in pids:
        try:
            with open("/proc/{}/io".format(pid), encoding="ascii") as file:
                counts = _numbers(file)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended, and its parent's count has its own
        except OSError:
            return None
        read_bytes += counts.get("read_bytes:", 0)
        write_bytes += counts.get("write_bytes:", 0)
    return Io(read_bytes, write_bytes)


def network_of(pid: int) -> Optional[Tuple[int, int]]:
    """Bytes received and sent over the interfaces of a process's own network; None where it is the agent's too."""
    try:
        if os.readlink("/proc/{}/ns/net".format(pid)) == os.readlink("/proc/self/ns/net"):
            return None
        with open("/proc/{}/net/dev".format(pid), encoding="ascii") as file:
            lines = file.readlines()[2:]
    except OSError:
        return None
    received = sent = 0
    for line in lines:
        name, _, rest = line.partition(":")
        if name.strip() != "lo":
            columns = rest.split()
            received += int(columns[0])
            sent += int(columns[8])
    return received, sent


def page_cache_mib_of(pid: int, groups: str = _GROUPS, proc: str = "/proc") -> Optional[float]:
    """The page cache of a process's control group."""
    try:
        with open("{}/{}/cgroup".format(proc, pid), encoding="utf-8", errors="replace") as file:
            paths = {kinds: path for _, kinds, path in (line.rstrip("\n").split(":", 2) for line in file)}
        for kinds, path in paths.items():
            if "memory" in kinds.split(","):  # version 1, where each kind of limit has its own tree
                return _stat(os.path.join(groups, "memory", path.lstrip("/")), "total_cache")
        if "" in paths:
            return _stat(os.path.join(groups, paths[""].lstrip("/")), "file")
    except OSError:
        return None
    return None


def _stat(folder: str, name: str) -> Optional[float]:
    with open(os.path.join(folder, "memory.stat"), encoding="ascii") as file:
        found = _numbers(file).get(name)
    return None if found is None else found / (1 << 20)


def _numbers(lines: Iterable[str]) -> Dict[str, int]:
    """The lines `NAME NUMBER` of a file."""
    return {name: int(number) for name, number in (line.split() for line in lines)}
