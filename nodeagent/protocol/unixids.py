"""Unix users and groups that jobs may run as. The platform and the agents each ask about their own machine."""

from __future__ import annotations

import contextlib
import grp
import os
from typing import Sequence

FIRST_ORDINARY_ID = 1000
"""Ids below it belong to root and to system accounts and groups."""
MAX_ID = 2**31 - 1
NOBODY_IDS = (65_534, 65_535)
"""`nobody`, which services and network file systems share, and the 16-bit form of -1."""
PRIVILEGED_GROUPS = frozenset(
    {
        *("root", "adm", "admin", "disk", "docker", "incus", "incus-admin", "kmem", "kvm", "libvirt", "lxd"),
        *("podman", "shadow", "staff", "sudo", "systemd-journal", "wheel"),
    }
)
"""Groups with rights over the whole machine, whatever number they have."""
_ENGINE_SOCKETS = (
    *("/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock"),
    *("/run/libvirt/libvirt-sock", "/var/lib/incus/unix.socket", "/var/snap/lxd/common/lxd/unix.socket"),
)


def uid_problem(uid: int) -> str:
    """The reason that no job may run as this user, by the accounts of this machine; empty = it may."""
    problem = _number_problem(uid)
    if not problem and uid == os.geteuid():
        problem = "Muster itself runs as this user"
    return "uid {}: {}".format(uid, problem) if problem else ""


def gids_problem(gids: Sequence[int]) -> str:
    """The reason that no job may have one of these groups, by the groups of this machine; empty = it may."""
    problems = ((gid, _number_problem(gid)) for gid in gids)
    return next(("gid {}: {}".format(*found) for found in problems if found[1]), "") or groups_problem(gids)


def groups_problem(gids: Sequence[int]) -> str:
    """The reason that no process of a job, not even of a system account, may have one of these groups."""
    problems = ((gid, _group_problem(gid)) for gid in gids)
    return next(("gid {}: {}".format(*found) for found in problems if found[1]), "")


def _number_problem(number: int) -> str:
    if number == 0:
        return "it is root's"
    if number < FIRST_ORDINARY_ID:
        return "numbers below {} belong to system accounts and groups".format(FIRST_ORDINARY_ID)
    if number in NOBODY_IDS or number > MAX_ID:
        return "it is reserved, or above {}".format(MAX_ID)
    return ""


def _group_problem(gid: int) -> str:
    if gid in (os.getegid(), *os.getgroups()):
        return "Muster itself has this group"
    with contextlib.suppress(KeyError):  # no group of this machine has this number
        name = grp.getgrgid(gid).gr_name
        if name in PRIVILEGED_GROUPS:
            return "the group {} has rights over the whole machine".format(name)
    for path in _ENGINE_SOCKETS:
        with contextlib.suppress(OSError):  # there is no such engine
            if os.stat(path).st_gid == gid:
                return "members of this group can command {}".format(path)
    return ""
