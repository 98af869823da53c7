"""Folders of nodes in containers, and the paths that neither side lets through.

The platform checks what people write, to say so at once; the agent checks it again and has the last word, because it
alone sees where a path really leads.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Tuple

from nodeagent.protocol.wire import Message

MAX_MOUNTS = 16
"""The most volumes of one job."""
MAX_PATH_CHARS = 500
"""The most characters of a volume's folder, and of its path in a job."""

CLOSED_TARGETS = ("/proc", "/sys", "/dev", "/etc", "/run", "/var/run", "/tmp", "/muster")  # noqa: S108 - in a container
"""Folders of a container that belong to it or its engine: no volume and no working folder lies there or below."""
CLOSED_SOURCES = (
    *("/proc", "/sys", "/dev", "/etc", "/run", "/var/run", "/boot", "/root"),
    *("/usr", "/bin", "/sbin", "/lib", "/lib64"),
    *("/var/lib/docker", "/var/lib/containerd", "/var/lib/containers"),
)
"""Folders of a machine that no volume may be, contain or lie in."""

# No comma, colon or quote: engines are told of mounts in lines in which these have a meaning.
_PATH = re.compile(r"(/[A-Za-z0-9_@+%~=.\-]+)+")


@dataclass(frozen=True)
class VolumeMount(Message):
    """A volume in a container.

    `source` is the folder on the node as an operator declared it, `target` where the container has it. `refused` says
    why the job may not have the volume any more, which it could when it was submitted.
    """

    name: str
    source: str
    target: str
    read_only: bool = True
    refused: str = ""


def overlap(one: str, other: str) -> bool:
    """True if two paths are the same, or one lies in the other."""
    return (one + "/").startswith(other.rstrip("/") + "/") or (other + "/").startswith(one.rstrip("/") + "/")


def is_below(path: str, roots: Tuple[str, ...]) -> bool:
    """True if a path is one of the roots, or below one."""
    return any((path + "/").startswith(root.rstrip("/") + "/") for root in roots)


def path_problem(path: str) -> str:
    """The fault in the spelling of a path; empty for none."""
    if not path.startswith("/"):
        return "the path must begin with /"
    if path == "/":
        return "it is the root of everything"
    if len(path) > MAX_PATH_CHARS:
        return "the path has more than {} characters".format(MAX_PATH_CHARS)
    if not _PATH.fullmatch(path) or not {".", ".."}.isdisjoint(path.split("/")):
        return "write a plain path: letters, digits and _@+%~=.- between single slashes, without . and .."
    return ""


def target_problem(target: str) -> str:
    """The reason that no container can have a volume there; empty if it can."""
    problem = path_problem(target)
    if problem:
        return problem
    closed = next((own for own in CLOSED_TARGETS if is_below(target, (own,))), None)
    return "{} is the container's own".format(closed) if closed else ""


def absolute_workdir(workdir: str) -> str:
    """The folder that an absolute `workdir` names: written plainly, as engines and `overlap` need it."""
    return "/" + "/".join(part for part in workdir.split("/") if part not in ("", "."))


def workdir_problem(workdir: str) -> str:
    """The reason that no container can have its working folder there; empty if it can. It is mounted as volumes are."""
    return target_problem(absolute_workdir(workdir)) if workdir.startswith("/") else ""


def source_problem(path: str) -> str:
    """The reason that no folder of this name can be a volume or a root of volumes; empty if it can."""
    problem = path_problem(path)
    if problem:
        return problem
    closed = next((own for own in CLOSED_SOURCES if overlap(path, own)), None)
    return "{} is the machine's own".format(closed) if closed else ""
