"""Rules for when a disk counts as full, when it has room again, and which job may be stopped for it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Mapping, Optional, Tuple


class Unit(Enum):
    """A disk resource: bytes or files. It is full when it is short of either."""

    BYTES = "bytes"
    FILES = "files"
    """Inodes. An empty file takes one, and so does a folder."""


MAX_RESERVE = {Unit.BYTES: 1 << 30, Unit.FILES: 1_000_000}
RESERVE_SHARE = 0.05
ROOM_FACTOR = 1.25
"""A full disk has room again once the reserve times this is free, so that it does not flap between the two."""
ROOM_AFTER_S = 5.0
"""Seconds for which that much must stay free: a job may delete its files and write them again at once."""
MIN_SHARE = 0.10
"""A job that takes less of a disk than this share is not stopped to make room for others."""
MANY_FILES = 1_000_000
"""A job with this many files can be stopped on any disk: a tenth of the largest disks' inodes is too many to count."""
HASTE_SHARE = 0.5
"""Share of the reserve below which the job that is being stopped loses its grace."""

LOOK_EVERY_S = 2.0
MIN_LOOK_INTERVAL_S = 0.05

_MIN_INODE_BYTES = 512


@dataclass(frozen=True)
class Measure:
    """A disk by one unit, at one moment; `free` is what users other than root can use."""

    folder: str
    device: int
    unit: Unit
    total: int
    free: int

    @property
    def key(self) -> Tuple[int, Unit]:
        """The same in all measurements of this disk by this unit."""
        return self.device, self.unit


def bounds_files(files: Measure, in_bytes: Measure) -> bool:
    """True if a disk can run out of files before it runs out of bytes.

    btrfs has no limit and reports 0. XFS and ZFS make inodes from free bytes and report how many those suffice for:
    there the job that takes the most bytes must be stopped, not the one with the most files.
    """
    return files.total > 0 and files.free * _MIN_INODE_BYTES < in_bytes.free


def reserve_of(measure: Measure, asked_bytes: Optional[int]) -> int:
    """The amount to keep free: the bytes asked for, else a twentieth of the disk, at most 1 GiB or a million files. A
    request for 0 bytes reserves no files either.
    """
    if asked_bytes is not None and (measure.unit is Unit.BYTES or asked_bytes == 0):
        return min(asked_bytes, measure.total)
    return min(MAX_RESERVE[measure.unit], int(measure.total * RESERVE_SHARE))


def is_full(measure: Measure, reserve: int, was: bool) -> bool:
    """True if the disk counts as full; a disk that `was` full needs more than the reserve to have room again."""
    return measure.free < (reserve * ROOM_FACTOR if was else reserve)


def is_pressing(measure: Measure, reserve: int) -> bool:
    """True if too little is free to give a job any more grace."""
    return measure.free < reserve * HASTE_SHARE


def whom_to_stop(taken: Mapping[int, int], measure: Measure, reserve: int) -> Optional[int]:
    """The id of the allocation that takes most of a full disk; None if no allocation takes enough to be stopped."""
    if not taken:
        return None
    most = max(taken, key=lambda allocation_id: (taken[allocation_id], allocation_id))
    least = max(measure.total * MIN_SHARE, reserve)
    if measure.unit is Unit.FILES:
        least = min(least, MANY_FILES)
    return most if taken[most] >= least else None


def next_look_s(measure: Measure, reserve: int, before: Optional[Measure], since_s: float) -> float:
    """Seconds until the next look: fewer when the disk would fill past the reserve before a usual one."""
    if before is None or since_s <= 0 or before.free <= measure.free:
        return LOOK_EVERY_S
    falls_by_s = (before.free - measure.free) / since_s
    return min(LOOK_EVERY_S, max(MIN_LOOK_INTERVAL_S, (measure.free - reserve) / falls_by_s / 2))
