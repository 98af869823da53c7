"""When a disk is as good as full, when it has room again, and who may be stopped for it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Mapping, Optional, Tuple


class Unit(Enum):
    """What a disk has so much room for. It is full when it is short of either."""

    BYTES = "bytes"
    FILES = "files"
    """Its inodes. A file without any bytes takes one as well, and so does a folder."""


MAX_RESERVE = {Unit.BYTES: 1 << 30, Unit.FILES: 1_000_000}
RESERVE_SHARE = 0.05
ROOM_FACTOR = 1.25
"""So much more than the reserve must be free before a disk has room again: it is not to go back and forth."""
ROOM_AFTER_S = 5.0
"""So long it must have been free: a job may give back all that it takes, and take it again, in a moment."""
MIN_SHARE = 0.10
"""Who takes less of a disk than this is never stopped for the sake of others."""
MANY_FILES = 1_000_000
"""Who has so many takes enough of any disk: a tenth of those of the largest ones is more than can be counted."""
HASTE_SHARE = 0.5
"""With less than this of the reserve left, who is being stopped has no more grace."""

LOOK_EVERY_S = 2.0
MIN_LOOK_INTERVAL_S = 0.05

_MIN_INODE_BYTES = 512


@dataclass(frozen=True)
class Measure:
    """A disk by one unit, at one moment; `free` is what is left for users other than root."""

    folder: str
    device: int
    unit: Unit
    total: int
    free: int

    @property
    def key(self) -> Tuple[int, Unit]:
        """The same for all looks at this disk by this unit."""
        return self.device, self.unit


def bounds_files(files: Measure, in_bytes: Measure) -> bool:
    """Whether a disk can be out of files before it is out of bytes.

    Some file systems know no such bound and tell 0 (btrfs). Others make inodes of free bytes (XFS, ZFS), and tell as
    many as those suffice for: there, who takes the bytes is to be stopped, and not who has many files.
    """
    return files.total > 0 and files.free * _MIN_INODE_BYTES < in_bytes.free


def reserve_of(measure: Measure, asked_bytes: Optional[int]) -> int:
    """How much is kept free: as many bytes as asked for, else a twentieth of the disk, and 1 GiB or a million files at
    most. Who asks for no bytes has no files kept free either.
    """
    if asked_bytes is not None and (measure.unit is Unit.BYTES or asked_bytes == 0):
        return min(asked_bytes, measure.total)
    return min(MAX_RESERVE[measure.unit], int(measure.total * RESERVE_SHARE))


def is_full(measure: Measure, reserve: int, was: bool) -> bool:
    """Whether the disk is as good as full; one that was needs more than the reserve to have room again."""
    return measure.free < (reserve * ROOM_FACTOR if was else reserve)


def is_pressing(measure: Measure, reserve: int) -> bool:
    """Whether no grace can be given any more."""
    return measure.free < reserve * HASTE_SHARE


def whom_to_stop(taken: Mapping[int, int], measure: Measure, reserve: int) -> Optional[int]:
    """The allocation that takes most of a full disk, by id; None where nobody takes enough to be stopped for others."""
    if not taken:
        return None
    most = max(taken, key=lambda allocation_id: (taken[allocation_id], allocation_id))
    least = max(measure.total * MIN_SHARE, reserve)
    if measure.unit is Unit.FILES:
        least = min(least, MANY_FILES)
    return most if taken[most] >= least else None


def next_look_s(measure: Measure, reserve: int, before: Optional[Measure], since_s: float) -> float:
    """In how many seconds to look again: sooner where the disk fills so fast that the reserve would be passed by."""
    if before is None or since_s <= 0 or before.free <= measure.free:
        return LOOK_EVERY_S
    falls_by_s = (before.free - measure.free) / since_s
    return min(LOOK_EVERY_S, max(MIN_LOOK_INTERVAL_S, (measure.free - reserve) / falls_by_s / 2))
