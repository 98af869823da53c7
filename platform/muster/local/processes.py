"""Facts of the kernel about processes: parents, life and end.

Linux only, from /proc. A process id alone proves nothing (they are used again), so callers compare a second mark.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_POLL_S = 0.05


def is_alive(pid: int) -> bool:
    """Whether this process runs; one that has ended and waits to be reaped does not.

    A zombie with other threads has not ended: its files and sockets are open until the last of them has gone.
    """
    fields = _stat_fields(pid)
    return bool(fields) and (fields[0] not in {"Z", "X"} or int(fields[17]) > 1)


def command_line(pid: int) -> list[str]:
    """The words a process was started with; none when it is gone or not ours to see."""
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return []
    return [os.fsdecode(word) for word in raw.split(b"\0") if word]


def start_ticks(pid: int) -> int | None:
    """The start of a process, in clock ticks since boot; with its id it names one process for good."""
    fields = _stat_fields(pid)
    return int(fields[19]) if fields else None


def become_subreaper() -> None:
    """Makes every orphan among our descendants our child, also one that daemonised, so that none is lost."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")


def zombie_children(pid: int) -> list[int]:
    """The children of a process that have ended and were not reaped yet."""
    return [child for child in _children_of().get(pid, []) if _state(child) == "Z"]


def descendants(pid: int) -> list[int]:
    """Every process below this one, parents before their children."""
    children = _children_of()
    found: list[int] = []
    queue = [pid]
    while queue:
        below = children.get(queue.pop(0), [])
        found += below
        queue += below
    return found


def users_of(folder: Path, program: str) -> list[int]:
    """The processes that have a file open below the folder and the name of the program in their command line."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in pids if program in " ".join(command_line(pid)) and _has_open(pid, folder)]


def end_all(find: Callable[[], Iterable[int]], *, grace_s: float, kill_s: float = 5.0) -> list[int]:
    """Ends what `find` names, asked anew each time: SIGTERM first, SIGKILL after the grace; returns what still runs."""
    for number, patience_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, kill_s)):
        told: set[int] = set()
        end = time.monotonic() + patience_s
        while True:
            left = [pid for pid in find() if is_alive(pid)]
            if not left:
                return []
            for pid in left:
                if pid not in told:
                    send(pid, number)
                    told.add(pid)
            if time.monotonic() >= end:
                break
            time.sleep(_POLL_S)
    return [pid for pid in find() if is_alive(pid)]


def send(pid: int, number: signal.Signals) -> bool:
    """Sends a signal; False when there is no such process any more."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def reap(pids: Iterable[int]) -> None:
    """Takes the exit status of orphans that came to us; without it they stay in the process table."""
    for pid in pids:
        if _state(pid) == "Z":
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:  # its own parent is still there and will do it
                continue


def wait_gone(pid: int, *, timeout_s: float) -> bool:
    end = time.monotonic() + timeout_s
    while is_alive(pid):
        if time.monotonic() >= end:
            return False
        time.sleep(_POLL_S)
    return True


def _has_open(pid: int, folder: Path) -> bool:
    try:
        return any(os.readlink(entry).startswith(f"{folder}/") for entry in os.scandir(f"/proc/{pid}/fd"))
    except OSError:  # it has ended, has closed a file meanwhile, or is not ours to see
        return False


def _children_of() -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        fields = _stat_fields(int(entry)) if entry.isdigit() else []
        if fields:
            children.setdefault(int(fields[1]), []).append(int(entry))
    return children


def _state(pid: int) -> str:
    fields = _stat_fields(pid)
    return fields[0] if fields else ""


def _stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name, which may itself hold spaces and brackets."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return []
    return text[text.rindex(")") + 2 :].split()
