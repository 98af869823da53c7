"""Linux namespaces for the jobs of an agent that is not root.

All these jobs run as the agent's own account. Namespaces keep a job from the files and processes of the agent, of the
platform and of other jobs:

1. A user namespace gives the right to make the others. It maps the agent's own uid and gid only.
2. A mount namespace hides folders under empty file systems, and makes others read-only. The job keeps its own folders.
3. A PID namespace, with a /proc of its own, and an IPC namespace.

The program of a job is executed with the agent's uid, so the kernel takes all capabilities in the namespaces from it.
"""

from __future__ import annotations

import ctypes
import os
import stat
from dataclasses import dataclass
from typing import List, Tuple

from nodeagent.protocol.messages import Message

_CLONE_NEWNS, _CLONE_NEWIPC, _CLONE_NEWUSER, _CLONE_NEWPID = 0x00020000, 0x08000000, 0x10000000, 0x20000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT = 1, 2, 4, 8, 32
_MS_BIND, _MS_REC, _MS_SLAVE = 4096, 16384, 1 << 19
_ENTERED = (("user", _CLONE_NEWUSER), ("mnt", _CLONE_NEWNS), ("ipc", _CLONE_NEWIPC), ("pid", _CLONE_NEWPID))

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Isolation(Message):
    """The machine's files that a job sees; all paths are absolute."""

    hidden: Tuple[str, ...] = ()
    """Folders that are empty for the job."""
    read_only: Tuple[str, ...] = ()
    own: Tuple[str, ...] = ()
    """Folders of the job, which it reaches and changes, below a hidden folder too."""
    tmp: str = ""
    """The job's folder that is its /tmp and /var/tmp; empty = the machine's."""


def create(isolation: Isolation) -> None:
    """Move this process, which has one thread, to new namespaces; its next child is the init of the PID namespace.

    Raises:
        OSError: the kernel forbids a step; `filename` names it.
    """
    uid, gid = os.geteuid(), os.getegid()
    _check("unshare", _libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS | _CLONE_NEWPID | _CLONE_NEWIPC))
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", "{0} {0} 1".format(uid))
    _write("/proc/self/gid_map", "{0} {0} 1".format(gid))
    _mount("none", "/", "", _MS_REC | _MS_SLAVE)
    # Opened before anything is hidden; a mount takes its source from the descriptor.
    read_only = sorted(filter(os.path.exists, isolation.read_only), key=len)
    sources = {path: os.open(path, os.O_PATH) for path in {*read_only, *isolation.own, isolation.tmp} - {""}}
    if os.path.isdir("/dev/shm"):  # noqa: S108 - it is covered, not used
        _mount("tmpfs", "/dev/shm", "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=1777")  # noqa: S108
    if isolation.tmp:
        for path in filter(os.path.isdir, ("/tmp", "/var/tmp")):  # noqa: S108
            _bind(sources[isolation.tmp], path)
    for path in read_only:
        _make_like(sources[path], path)
        _bind(sources[path], path)
        _mount("none", path, "", _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _locked_flags(path))
    covered: List[str] = []
    for path in sorted(set(isolation.hidden), key=len):
        if os.path.isdir(path):
            _mount("tmpfs", path, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755,size=64k")
            covered.append(path)
    for path in isolation.own:
        _make_like(sources[path], path)
        _bind(sources[path], path)
    for path in covered:
        _mount("none", path, "", _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | _MS_NODEV)
    for source in sources.values():
        os.close(source)


def mount_proc() -> None:
    """Cover /proc by that of this process's PID namespace."""
    _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)


def enter(init: int) -> None:
    """Move this process, which has one thread, to the namespaces of `init`; its next child is in the PID namespace."""
    opened = [
        (os.open("/proc/{}/ns/{}".format(init, name), os.O_RDONLY | os.O_CLOEXEC), kind) for name, kind in _ENTERED
    ]
    for descriptor, kind in opened:
        _check("setns", _libc.setns(descriptor, kind))
        os.close(descriptor)


def _make_like(source: int, path: str) -> None:
    """Make the folder or file to mount `source` on, where a mount below `path` has hidden it."""
    if os.path.exists(path):
        return
    if stat.S_ISDIR(os.fstat(source).st_mode):
        os.makedirs(path)
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY))


def _locked_flags(path: str) -> int:
    """The flags of the mount of `path` that a user namespace may not clear."""
    return os.statvfs(path).f_flag & (_MS_NOSUID | _MS_NODEV | _MS_NOEXEC)


def _bind(source: int, path: str) -> None:
    _mount("/proc/self/fd/{}".format(source), path, "", _MS_BIND | _MS_REC)


def _mount(source: str, path: str, kind: str, flags: int, data: str = "") -> None:
    words = (os.fsencode(source), os.fsencode(path), kind.encode() or None)
    _check("mount " + path, _libc.mount(*words, ctypes.c_ulong(flags), data.encode() or None))


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error
    finally:
        os.close(descriptor)


def _check(step: str, result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), step)
