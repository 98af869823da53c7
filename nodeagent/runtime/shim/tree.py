"""Processes as /proc shows them: who descends from whom, who carries a mark, what they use."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import Dict, Iterable, List, Optional, Set, Tuple

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_ENDED = (b"Z", b"X")


@dataclass(frozen=True)
class Process:
    """One line of /proc/PID/stat. `started_ticks` tells a process from a later one of the same number."""

    pid: int
    parent: int
    session: int
    ended: bool
    """It waits to be reaped."""
    headless: bool
    """Its first thread has left and others run on: the kernel shows it as a zombie, which it is not."""
    cpu_s: float
    rss_mib: int
    started_ticks: int


def read_process(pid: int) -> Optional[Process]:
    """The process with this number, or None when there is none."""
    try:
        with open("/proc/{}/stat".format(pid), "rb") as file:
            stat = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    words = _after_name(stat)
    left, threads = words[0] in _ENDED, int(words[17])
    headless = left and threads > 1
    own, reaped = int(words[11]) + int(words[12]), int(words[13]) + int(words[14])
    return Process(
        pid=pid,
        parent=int(words[1]),
        session=int(words[3]),
        ended=left and not headless,
        headless=headless,
        cpu_s=(own + reaped) / _TICKS_PER_S,
        rss_mib=(_resident_pages(pid) if headless else int(words[21])) * _PAGE_BYTES >> 20,
        started_ticks=int(words[19]),
    )


def seen_at(pid: int) -> str:
    """The folder where /proc shows what a process has open and in memory.

    /proc/PID shows what the first thread has, which is nothing once that has left. So it is the folder of the first
    thread that runs, and /proc/PID for a process that is gone.
    """
    tasks = "/proc/{}/task".format(pid)
    with contextlib.suppress(OSError):
        for thread in sorted(map(int, os.listdir(tasks))):
            folder = "{}/{}".format(tasks, thread)
            with open(folder + "/stat", "rb") as file:
                if _after_name(file.read())[0] not in _ENDED:
                    return folder
    return "/proc/{}".format(pid)


def _resident_pages(pid: int) -> int:
    try:
        with open(seen_at(pid) + "/stat", "rb") as file:
            return int(_after_name(file.read())[21])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _after_name(stat: bytes) -> List[bytes]:
    """The words after the command's name, which stands in parentheses and may hold anything, parentheses too."""
    return stat[stat.rindex(b")") + 2 :].split()


def all_processes() -> Dict[int, Process]:
    """Every process of the machine that this one can see."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            process = read_process(int(name))
            if process is not None:
                found[process.pid] = process
    return found


def descendants(processes: Dict[int, Process], root: int) -> List[Process]:
    """The live descendants of `root`, parents before their children, without `root` itself."""
    children: Dict[int, List[int]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process.pid)
    found: List[Process] = []
    queue, seen = [root], {root}
    for pid in queue:
        for child in sorted(children.get(pid, ())):
            if child not in seen:
                seen.add(child)
                queue.append(child)
                if not processes[child].ended:
                    found.append(processes[child])
    return found


def marked(mark: bytes, processes: Iterable[Process]) -> Set[int]:
    """The processes whose environment has the entry `mark` (`NAME=value`) exactly."""
    found = set()
    for process in processes:
        if process.ended:
            continue
        folder = seen_at(process.pid) if process.headless else "/proc/{}".format(process.pid)
        try:
            with open(folder + "/environ", "rb") as file:
                environment = file.read()
        except OSError:  # it has ended, or belongs to another user
            continue
        if mark in environment.split(b"\0"):
            found.add(process.pid)
    return found


def signal_all(pids: Iterable[int], number: int) -> int:
    """Send a signal to each process that is still there, and return how many got it."""
    sent = 0
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
        sent += 1
    return sent


def identity(pid: int) -> Optional[Tuple[int, int]]:
    """Number and start of a process; two are equal only if it is the same process."""
    process = read_process(pid)
    return None if process is None else (process.pid, process.started_ticks)


def pid_namespace(pid: int) -> Optional[str]:
    """The name of a process's PID namespace; None when it is gone, or not ours to look at."""
    try:
        return os.readlink("/proc/{}/ns/pid".format(pid))
    except OSError:
        return None


def is_namespace_init(pid: int) -> bool:
    """True if a process is the first of a PID namespace below ours."""
    try:
        with open("/proc/{}/status".format(pid), encoding="utf-8", errors="replace") as file:
            numbers = next((line.split()[1:] for line in file if line.startswith("NSpid:")), [])
    except (FileNotFoundError, ProcessLookupError):
        return False
    return len(numbers) > 1 and numbers[-1] == "1"


def catches(pid: int, number: int) -> bool:
    """True if a process has a handler for a signal."""
    try:
        with open("/proc/{}/status".format(pid), encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("SigCgt:"):
                    return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    except (FileNotFoundError, ProcessLookupError):
        return False
    return False


def is_in_cgroup_of(pid: int, name: str) -> bool:
    """True if a process is in a control group whose path has `name` in it."""
    try:
        with open("/proc/{}/cgroup".format(pid), encoding="utf-8", errors="replace") as file:
            return name in file.read()
    except (FileNotFoundError, ProcessLookupError):
        return False
