"""Volumes in a spec, as `NAME:TARGET[:ro|rw]`: how they are read, and what is refused whatever there is."""

from __future__ import annotations

import re
from dataclasses import dataclass

from muster.common.errors import Invalid
from nodeagent.protocol.messages import absolute_workdir, overlap, target_problem

PATTERN = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?:/[^:]+(:(ro|rw))?$"
_MOUNT = re.compile(PATTERN.removeprefix("^").removesuffix("$"), re.DOTALL)
DEFAULT_WORKDIR = "/workspace"


@dataclass(frozen=True, slots=True)
class Mounted:
    """One volume and where a job has it."""

    volume: str
    target: str
    read_only: bool

    @property
    def text(self) -> str:
        """As it is stored and shown, with what was left out."""
        return f"{self.volume}:{self.target}:{'ro' if self.read_only else 'rw'}"


def read_mount(text: str) -> Mounted:
    """The mount that a text says; `ValueError` says what is wrong with it."""
    if not _MOUNT.fullmatch(text):
        raise ValueError("write it as VOLUME:/FOLDER:ro or VOLUME:/FOLDER:rw, with the name of a volume in front")
    name, target, *mode = text.split(":")
    problem = target_problem(target)
    if problem:
        raise ValueError(f"{target[:100]!r}: {problem}")
    return Mounted(name, target, mode != ["rw"])


def plain_mount(text: str) -> str:
    """The mount in its one stored form; `ValueError` if it is none."""
    return read_mount(text).text


def require_apart(mounts: list[str], workdir: str | None) -> None:
    """Return if no volume lies in another or in the working folder, and raise `Invalid` for the first that does."""
    taken = [absolute_workdir(workdir) if workdir and workdir.startswith("/") else DEFAULT_WORKDIR]
    for index, text in enumerate(mounts):
        target = read_mount(text).target
        other = next((path for path in taken if overlap(path, target)), None)
        if other is not None:
            what = "the working folder" if other == taken[0] else "another volume's"
            raise Invalid.field(f"mounts.{index}", f"{target} overlaps {other}, which is {what}")
        taken.append(target)
