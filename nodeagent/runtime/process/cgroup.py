"""Control groups (cgroup v2) of jobs without a container: the kernel enforces their limits.

systemd starts the agent in `UNIT/agent` (`DelegateSubgroup=agent`) and delegates `UNIT` to it. Each job gets a group
beside that of the agent, `UNIT/job-ALLOCATION`: a group that hands controllers down may hold no process itself.
"""

from __future__ import annotations

import os

AGENT_GROUP = "agent"
"""The last part of the agent's own group where its parent is delegated to the agent."""
_CONTROLLERS = ("memory", "pids")


def delegated_root(membership: str = "/proc/self/cgroup", mount: str = "/sys/fs/cgroup") -> str:
    """The path of the group below which the agent makes those of jobs; empty where none is delegated to it.

    `membership` is the file that names the agent's own group.
    """
    with open(membership, encoding="utf-8") as file:
        path = next((line[len("0::") :].rstrip("\n") for line in file if line.startswith("0::")), "")
    parent, name = os.path.split(path)
    if name != AGENT_GROUP:
        return ""
    root = os.path.join(mount, parent.lstrip("/"))
    try:
        if not set(_CONTROLLERS) <= set(_read(root, "cgroup.controllers").split()):
            return ""
        _write(root, "cgroup.subtree_control", " ".join("+" + name for name in _CONTROLLERS))
    except OSError:
        return ""
    return root


def create(group: str, *, memory_mib: int, pids: int) -> None:
    """Make a job's group with its limits; `memory_mib` 0 is no limit, and swap counts as none of it.

    Raises:
        OSError: the group cannot be made or limited.
    """
    os.makedirs(group, exist_ok=True)
    _write(group, "memory.max", str(memory_mib << 20) if memory_mib else "max")
    if memory_mib and os.path.exists(os.path.join(group, "memory.swap.max")):  # absent in a kernel without swap
        _write(group, "memory.swap.max", "0")
    _write(group, "pids.max", str(pids))


def enter(group: str) -> None:
    """Move this process into a group.

    Raises:
        OSError: it cannot be moved.
    """
    _write(group, "cgroup.procs", "0")


def oom_kills(group: str) -> int:
    """The number of the group's processes that the kernel killed for want of memory; 0 for a removed group."""
    try:
        words = _read(group, "memory.events").split()
    except OSError:
        return 0
    return int(words[words.index("oom_kill") + 1]) if "oom_kill" in words else 0


def kill(group: str) -> None:
    """Kill every process of the group at once, where the kernel can (from Linux 5.14 on)."""
    if os.path.exists(os.path.join(group, "cgroup.kill")):
        _write(group, "cgroup.kill", "1")


def remove(group: str) -> None:
    """Remove a group without processes; one that is gone already is fine.

    Raises:
        OSError: a process is left in it.
    """
    try:
        os.rmdir(group)
    except FileNotFoundError:
        return


def _read(group: str, name: str) -> str:
    with open(os.path.join(group, name), encoding="ascii") as file:
        return file.read()


def _write(group: str, name: str, text: str) -> None:
    with open(os.path.join(group, name), "w", encoding="ascii") as file:
        file.write(text)
