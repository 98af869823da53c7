"""Volumes of a container: which it may have, and their folders, mounted so that nothing can be swapped under them.

An engine gets a folder by its path and resolves the path again when it mounts it. By then, a user with write access
above the volume could have put a symbolic link in its place. So the engine never sees the path of a volume:

1. The folder is opened, by its path. What was opened stays the same, whatever becomes of the path.
2. The kernel tells where it really is. That must lie below a root of the node and one of the pool, and neither hold nor
   lie in anything of the machine, the agent or the engine.
3. What was opened is mounted below a folder that only root can enter, alone (what is mounted below it stays outside),
   with neither set-user-ID programs nor devices, and read-only where it shall be.
4. The engine is given that place. When the container runs, the place is taken away again: the container has a mount of
   its own, with the same restrictions. That it has is read from the container's table of mounts.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
from dataclasses import dataclass
from typing import FrozenSet, Iterator, List, Optional, Sequence, Set, Tuple

from nodeagent.protocol.messages import EndReason, Message, VolumeMount, is_below, overlap
from nodeagent.protocol.volumes import CLOSED_SOURCES

STAGING = "/run/muster-agent/volumes"
"""The folder that holds volumes while their container starts."""

_SOCKETS = ("docker.sock", "podman/podman.sock", "podman.sock", "containerd/containerd.sock", "crio/crio.sock")
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_MS_REMOUNT, _MS_BIND, _MS_PRIVATE = 32, 4096, 1 << 18
_MNT_DETACH, _UMOUNT_NOFOLLOW = 2, 8
_MAX_LAYERS = 64

_libc = ctypes.CDLL(None, use_errno=True)


class VolumeRefused(Exception):
    """A volume that a container cannot have; the message begins with the field's name."""

    def __init__(self, reason: EndReason, name: str, detail: str) -> None:
        self.reason = reason
        super().__init__("mounts: volume {}: {}".format(name, detail))


@dataclass(frozen=True)
class Volumes(Message):
    """The volumes of one container, and what they have to keep to."""

    mounts: Tuple[VolumeMount, ...] = ()
    pool_roots: Tuple[str, ...] = ()
    node_roots: Tuple[str, ...] = ()
    keep_out: Tuple[str, ...] = ()
    """Files and folders of the agent and its engine."""


@dataclass(frozen=True)
class Staged:
    """A volume that is mounted where an engine may take it from."""

    volume: VolumeMount
    place: str
    mounted: Tuple[str, str]
    """The device, and what of it, as tables of mounts have them."""

    @property
    def restrictions(self) -> FrozenSet[str]:
        """The options that its mount must have, wherever it is."""
        return frozenset({"nosuid", "nodev"} | ({"ro"} if self.volume.read_only else set()))


@contextlib.contextmanager
def staged(volumes: Volumes, container: str) -> Iterator[Tuple[Staged, ...]]:
    """The volumes of a container, each mounted at a place of its own for as long as this lasts."""
    if not volumes.mounts:
        yield ()
        return
    found: List[Staged] = []
    try:
        for number, volume in enumerate(volumes.mounts):
            found.append(_stage(volume, volumes, os.path.join(STAGING, container, str(number))))
        yield tuple(found)
    finally:
        unstage(container)


def unstage(container: str) -> None:
    """Take away what is left of the places of a container's volumes. Nothing that is mounted there is touched."""
    folder = os.path.join(STAGING, container)
    # What cannot be taken away is taken away by the next start of the agent; the container has its own mounts by now.
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            _unmount(os.path.join(folder, name))
            os.rmdir(os.path.join(folder, name))  # only ever an empty folder
        os.rmdir(folder)


def unstage_all_but(containers: Set[str], agent_prefix: str) -> None:
    """Take away what runs of this agent left that ended in the middle."""
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(STAGING):
            if name.startswith(agent_prefix) and name not in containers:
                unstage(name)


def missing(found: Sequence[Staged], pid: int) -> Optional[Staged]:
    """The first volume that a process does not see as it should; None also when the process has ended."""
    try:
        table = _mounts_of("/proc/{}/mountinfo".format(pid))
    except OSError:
        return None
    for one in found:
        if not any(mounted == one.mounted and one.restrictions <= options for mounted, _, options in table):
            return one
    return None


def open_volume(volume: VolumeMount, volumes: Volumes) -> int:
    """A descriptor of the volume's folder, or `VolumeRefused`."""
    refused = EndReason.SPEC_REFUSED
    if volume.refused or not volume.source:
        raise VolumeRefused(refused, volume.name, volume.refused or "it has no folder")
    try:
        descriptor = os.open(volume.source, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        why = "its folder cannot be opened on this node: {}".format(error.strerror)
        raise VolumeRefused(EndReason.LAUNCH_FAILED, volume.name, why) from error
    try:
        why = _problem(descriptor, volumes)
        if why:
            raise VolumeRefused(refused, volume.name, why)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _problem(descriptor: int, volumes: Volumes) -> str:
    """The reason that no container may have an open folder; empty if it may. It names no path: users read it."""
    path = os.readlink("/proc/self/fd/{}".format(descriptor))
    for whose, roots in (("pool", volumes.pool_roots), ("node", volumes.node_roots)):
        if not is_below(path, tuple(os.path.realpath(root) for root in roots)):
            return "its folder is really outside of what this {} mounts".format(whose)
    if any(overlap(path, closed) for closed in CLOSED_SOURCES):
        return "its folder is the machine's own"
    here = os.fstat(descriptor)
    for own in volumes.keep_out:
        real = os.path.realpath(own)
        # By identity too: a folder may be mounted at several places.
        if overlap(path, real) or any(_is_same(here, part) for part in _with_parents(real)):
            return "its folder has, or lies in, what is the agent's or its engine's own"
    if any(_is_socket(name, descriptor) for name in _SOCKETS):
        return "its folder has the socket of a container engine"
    return ""


def _stage(volume: VolumeMount, volumes: Volumes, place: str) -> Staged:
    descriptor = open_volume(volume, volumes)
    try:
        os.makedirs(place, mode=0o700, exist_ok=True)
        os.chmod(STAGING, 0o700)
        _unmount(place)
        _mount("/proc/self/fd/{}".format(descriptor), place, _MS_BIND)
        _mount(None, place, _MS_PRIVATE)
        kept = os.statvfs(place).f_flag & (_MS_RDONLY | _MS_NOEXEC)  # the bits of both calls are the same
        wanted = _MS_NOSUID | _MS_NODEV | (_MS_RDONLY if volume.read_only else 0)
        _mount(None, place, _MS_REMOUNT | _MS_BIND | kept | wanted)
        mounted = _mounted_at(os.path.realpath(place))
    except OSError as error:
        why = "it cannot be mounted: {}".format(error.strerror)
        raise VolumeRefused(EndReason.LAUNCH_FAILED, volume.name, why) from error
    finally:
        os.close(descriptor)
    return Staged(volume, place, mounted)


def _mounts_of(table: str) -> List[Tuple[Tuple[str, str], str, FrozenSet[str]]]:
    """Mounts: device, mount point and options of each. Spaces and the like stay octal, as in the table."""
    with open(table, encoding="utf-8", errors="surrogateescape") as file:
        rows = [line.split(" ", 6) for line in file]
    return [((row[2], row[3]), row[4], frozenset(row[5].split(","))) for row in rows]


def _mounted_at(place: str) -> Tuple[str, str]:
    found = [mounted for mounted, where, _ in _mounts_of("/proc/self/mountinfo") if where == place]
    if not found:
        raise FileNotFoundError(errno.ENOENT, "it is not there", place)
    return found[-1]


def _with_parents(path: str) -> Iterator[str]:
    while True:
        yield path
        if path in ("/", ""):
            return
        path = os.path.dirname(path)


def _is_same(here: os.stat_result, path: str) -> bool:
    try:
        there = os.stat(path)
    except OSError:
        return False
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


def _is_socket(name: str, descriptor: int) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(name, dir_fd=descriptor).st_mode)
    except OSError:
        return False


def _mount(source: Optional[str], place: str, flags: int) -> None:
    encoded = None if source is None else os.fsencode(source)
    if _libc.mount(encoded, os.fsencode(place), None, ctypes.c_ulong(flags), None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), place)


def _unmount(place: str) -> None:
    """Take away all that is mounted at a place; files that are in use there stay so."""
    for _ in range(_MAX_LAYERS):
        if _libc.umount2(os.fsencode(place), _MNT_DETACH | _UMOUNT_NOFOLLOW) != 0:
            return
