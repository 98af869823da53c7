"""Whether the NVIDIA Container Toolkit of a node lets containers out of their box."""

from __future__ import annotations

import re
from collections.abc import Collection

from muster.fleet.runtimes import PROCESS

# CVE-2024-0132 was mended in 1.16.2, CVE-2025-23266 in 1.17.8; this is the newest version that has one of the two.
NEWEST_UNSAFE = (1, 17, 7)
_VERSION = re.compile(r"v?(\d{1,6})\.(\d{1,6})\.(\d{1,6})")


def why_barred(version: str, runtimes: Collection[str]) -> str:
    """The reason why nothing may start on a node with this toolkit; empty if something may, such as plain processes."""
    return _problem(version) if runtimes and PROCESS not in runtimes else ""


def safe_runtimes(version: str, runtimes: Collection[str]) -> tuple[list[str], str]:
    """Runtimes that a node with this toolkit may offer, and the reason for leaving others out; all if it is barred."""
    problem = _problem(version)
    plain = [name for name in runtimes if name == PROCESS]
    return (plain, problem) if problem and 0 < len(plain) < len(runtimes) else (list(runtimes), "")


def _problem(version: str) -> str:
    """The problem of a toolkit (empty: there is none); a version that cannot be read counts as an old one."""
    if not version:
        return ""
    found = _VERSION.match(version)
    if found is None:
        return f"the version of its NVIDIA Container Toolkit cannot be read: {version[:40]}"
    if tuple(int(part) for part in found.groups()) > NEWEST_UNSAFE:
        return ""
    newest = ".".join(map(str, NEWEST_UNSAFE))
    return (
        f"its NVIDIA Container Toolkit is {found[0]}: with {newest} and older, a container can take over the machine "
        "(CVE-2024-0132, CVE-2025-23266). Update it, and start the agent again"
    )
