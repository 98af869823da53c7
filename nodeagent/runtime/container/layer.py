"""The folder of a container's own layer over its image, found through the kernel: without asking the engine."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Optional

_ESCAPED = re.compile(r"\\([0-7]{3})")
_UPPER = "upperdir="


@dataclass(frozen=True)
class Layer:
    """The folder of this machine that takes what a container writes over its image."""

    path: str
    seen: int
    """The number of the disk by which the container's own processes see it."""


def layer_of(pid: int) -> Optional[Layer]:
    """The layer of the container of this process; None where its root is no overlay, or the process is gone."""
    try:
        with open("/proc/{}/mountinfo".format(pid), encoding="utf-8", errors="surrogateescape") as file:
            upper = upper_of(file.read())
        seen = os.stat("/proc/{}/root".format(pid)).st_dev
    except OSError:
        return None
    return Layer(upper, seen) if upper and os.path.isdir(upper) else None


def upper_of(mounts: str) -> str:
    """The upper folder of the overlay that is mounted at the root, empty for none; `mounts` is as in mountinfo."""
    found = ""
    for line in mounts.splitlines():
        place, _, kind = line.partition(" - ")
        if place.split(" ")[4] != "/" or not kind.startswith("overlay "):
            continue
        options = kind.split(" ", 2)[2].split(",")
        found = next((word[len(_UPPER) :] for word in options if word.startswith(_UPPER)), "")
    path = _ESCAPED.sub(lambda match: chr(int(match[1], 8)), found)
    return path if os.path.isabs(path) else ""
