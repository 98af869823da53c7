"""Why nothing new may start on a node, whatever operators want: all of it in one sentence, the field `barred`."""

from __future__ import annotations

DISK_FULL = "its disk is full"


def bars_of(*, toolkit: str, disk_full: bool) -> str:
    """The sentence; empty if nothing speaks against it. `toolkit` is as `muster.fleet.toolkit` says."""
    return "; ".join(filter(None, (DISK_FULL if disk_full else "", toolkit)))
