"""The filter of system calls of Podman's containers: its own, less what leads to capabilities. Pure.

Podman's own profile lets every process make a user namespace, in which it has all capabilities: enough to reach much
of the kernel that only root can reach otherwise. Docker's profile allows this to root only, and so does this one.

It is derived from the engine's profile, so it knows the system calls of the machine's release and keeps what the
operator has closed. A list of our own would silently refuse newer system calls.
"""

from __future__ import annotations

import errno
from typing import Any, Dict, List, Mapping

CLOSED = frozenset(
    (
        *("unshare", "setns"),
        *("mount", "umount", "umount2", "pivot_root", "mount_setattr", "move_mount", "open_tree", "open_tree_attr"),
        *("fsopen", "fsconfig", "fsmount", "fspick"),
        *("add_key", "request_key", "keyctl"),  # keyrings are the user's on the whole machine
        *("bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register"),
        *("fanotify_init", "open_by_handle_at", "pidfd_getfd", "quotactl", "quotactl_fd", "lookup_dcookie"),
        *("syslog", "reboot", "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module"),
    )
)
"""System calls that no job may make. All of it needs capabilities, or had holes that gave some."""

# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET; NEWTIME is none of `clone`'s.
_NAMESPACES = (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
_S390 = ["s390", "s390x"]


def without_ways_up(profile: Mapping[str, Any]) -> Dict[str, Any]:
    """A profile that allows what this one does, less what is closed; `ValueError` if it is no profile."""
    rules = profile.get("syscalls")
    if not isinstance(rules, list) or not isinstance(profile.get("defaultAction"), str):
        raise ValueError("it has no rules")
    own = CLOSED | {"clone", "clone3"}
    kept: List[Mapping[str, Any]] = []
    for rule in rules:
        names = [name for name in rule.get("names") or [rule.get("name")] if name not in own]
        if names:
            kept.append({**{key: value for key, value in rule.items() if key != "name"}, "names": names})
    return {**profile, "syscalls": [*kept, *_own_rules()]}


def _own_rules() -> List[Mapping[str, Any]]:
    return [
        _refusal(sorted(CLOSED), errno.EPERM),
        # Its flags lie in memory, where no filter can look. Who is told that there is none takes `clone`.
        _refusal(["clone3"], errno.ENOSYS),
        *_clone_rules(0, {"excludes": {"arches": _S390}}),
        *_clone_rules(1, {"includes": {"arches": _S390}}),
    ]


def _refusal(names: List[str], number: int) -> Mapping[str, Any]:
    return {"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": number}


def _clone_rules(at: int, where: Mapping[str, Any]) -> List[Mapping[str, Any]]:
    """Processes and threads may be made, namespaces may not; the flags are the argument `at`."""
    allowed = {"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": [_masked(at, sum(_NAMESPACES), 0)], **where}
    refused = [{**_refusal(["clone"], errno.EPERM), "args": [_masked(at, flag, flag)], **where} for flag in _NAMESPACES]
    return [allowed, *refused]


def _masked(at: int, mask: int, value: int) -> Mapping[str, Any]:
    return {"index": at, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}
