"""When a disk is as good as full, when it has room again, and who may be stopped for it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, Optional

LARGEST_RESERVE_BYTES = 1 << 30
RESERVE_SHARE = 0.05
ROOM_FACTOR = 1.25
"""So much more than the reserve must be free before a disk has room again: it is not to go back and forth."""
LEAST_SHARE = 0.10
"""Who takes less of a disk than this is never stopped for the sake of others."""
HASTE_SHARE = 0.5
"""With less than this of the reserve left, who is being stopped has no more grace."""

LOOK_EVERY_S = 2.0
SOONEST_LOOK_S = 0.05


@dataclass(frozen=True)
class Disk:
    """A disk at one moment, in bytes; `free` is what is left for users other than root."""

    folder: str
    device: int
    total: int
    free: int


def reserve_of(disk: Disk, asked_bytes: Optional[int]) -> int:
    """How many bytes are kept free: as many as asked for, else a twentieth of the disk and 1 GiB at most."""
    if asked_bytes is not None:
        return min(asked_bytes, disk.total)
    return min(LARGEST_RESERVE_BYTES, int(disk.total * RESERVE_SHARE))


def is_full(disk: Disk, reserve: int, was: bool) -> bool:
    """Whether the disk is as good as full; one that was needs more than the reserve to have room again."""
    return disk.free < (reserve * ROOM_FACTOR if was else reserve)


def is_pressing(disk: Disk, reserve: int) -> bool:
    """Whether no grace can be given any more."""
    return disk.free < reserve * HASTE_SHARE


def whom_to_stop(taken: Mapping[int, int], disk: Disk, reserve: int) -> Optional[int]:
    """The allocation that takes most of a full disk, by id; None where nobody takes enough to be stopped for others."""
    if not taken:
        return None
    most = max(taken, key=lambda allocation_id: (taken[allocation_id], allocation_id))
    least = max(disk.total * LEAST_SHARE, reserve)
    return most if taken[most] >= least else None


def next_look_s(disk: Disk, reserve: int, before: Optional[Disk], since_s: float) -> float:
    """In how many seconds to look again: sooner where the disk fills so fast that the reserve would be passed by."""
    if before is None or since_s <= 0 or before.free <= disk.free:
        return LOOK_EVERY_S
    falls_by_s = (before.free - disk.free) / since_s
    return min(LOOK_EVERY_S, max(SOONEST_LOOK_S, (disk.free - reserve) / falls_by_s / 2))
